"""Credentials in a file are read when a request is signed, and never pickled."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from pyspark_rocketmq.cluster.credentials_file import CredentialsFile
from pyspark_rocketmq.cluster.signing import Credentials, sign
from pyspark_rocketmq.errors import OptionError
from tests.options.samples import LEAST, error_of, read


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a credentials file with an access key and a secret key."""
    path = tmp_path / "keys"
    path.write_text("# ours\naccessKey=AK\n\nsecretKey: hush=1\n")
    return path


def test_lines_of_both_forms(file: Path) -> None:
    """Lines `name=value` and `name: value` are both read; comments and empty lines are skipped."""
    assert CredentialsFile(str(file)).current() == Credentials("AK", "hush=1")


def test_a_rotation_counts_from_the_next_signature(file: Path) -> None:
    """If the file is replaced, the next request is signed with the new credentials."""
    source = CredentialsFile(str(file))
    before = sign(source, 30, {"topic": "T"}, b"")

    fresh = file.with_suffix(".new")
    fresh.write_text("accessKey=AK2\nsecretKey=other\nsecurityToken=T\n")
    fresh.replace(file)

    after = sign(source, 30, {"topic": "T"}, b"")
    assert (before["AccessKey"], after["AccessKey"], after["SecurityToken"]) == ("AK", "AK2", "T")
    assert before["Signature"] != after["Signature"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("accessKey=AK\nsecretKey=\n", "line 2"),
        ("accessKey=AK\npassword=hush\n", "line 2"),
        ("hush\n", "line 1"),
        ("accessKey=AK\naccessKey=BK\nsecretKey=hush", "line 2"),
        ("accessKey=AK\n", "missing"),
    ],
)
def test_what_is_wrong_in_a_file(tmp_path: Path, text: str, what: str) -> None:
    """If the file has an error, the error names the option, the file and the line, but shows no text of the file."""
    path = tmp_path / "keys"
    path.write_text(text)

    error = error_of(LEAST | {"credentialsFile": str(path)})

    assert (error.option, error.code) == ("credentialsFile", "OPTION_VALUE")
    assert what in str(error) and str(path) in str(error) and "hush" not in str(error)


@pytest.mark.parametrize("path", ["/no/such/file", "/", "a\0b"])
def test_a_file_that_cannot_be_read(path: str) -> None:
    """If the file cannot be read, the error names the option."""
    with pytest.raises(OptionError, match="cannot be read"):
        CredentialsFile(path).current()
    assert error_of(LEAST | {"credentialsFile": path}).code == "OPTION_VALUE"


def test_secrets_stay_out_of_pickles(file: Path) -> None:
    """Pickled settings hold the path of the file and no secret, even after the file was read."""
    options = read(LEAST | {"credentialsFile": str(file)})

    assert options.cluster.credentials == CredentialsFile(str(file))
    assert b"hush" not in pickle.dumps(options) and "hush" not in repr(options)
    assert hash(options.cluster) == hash(pickle.loads(pickle.dumps(options)).cluster)
