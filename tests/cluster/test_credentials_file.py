"""Credentials in a file are read when a request is signed, and never pickled."""

from __future__ import annotations

import errno
import os
import pickle
import time
from pathlib import Path

import pytest

from pyspark_rocketmq.cluster.credentials_file import GRACE_S, MOST_BYTES, SETTLING_S, CredentialsFile, WatchedFile
from pyspark_rocketmq.cluster.signing import Credentials, sign
from pyspark_rocketmq.errors import OptionError
from pyspark_rocketmq.options import parse_helper_options
from tests.options.samples import LEAST, error_of, read

OLD, NEW = "accessKey=AK\nsecretKey=hush=1\n", "accessKey=AK2\nsecretKey=hush=2\n"
BY_OLD, BY_NEW = Credentials("AK", "hush=1"), Credentials("AK2", "hush=2")


class Clocks:
    """A monotonic clock that a test advances, and a wall clock that is late enough for every change to be old."""

    def __init__(self) -> None:
        self.now_s = 1000.0
        self.lateness_s = 2 * SETTLING_S

    def watch(self, path: Path) -> WatchedFile:
        """Return the watch of a file by these clocks, after it has read the file."""
        watched = WatchedFile(CredentialsFile(str(path)), lambda: self.now_s, lambda: time.time() + self.lateness_s)
        assert watched.current() == BY_OLD
        return watched


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a file with old credentials."""
    path = tmp_path / "keys"
    path.write_text(OLD)
    return path


@pytest.fixture
def clocks() -> Clocks:
    """Return the clocks of a watch."""
    return Clocks()


def age(path: Path) -> None:
    """Make a file look as if it was written long ago."""
    os.utime(path, (1, 1))


def test_lines_of_both_forms(tmp_path: Path) -> None:
    """Lines `name=value` and `name: value` are both read; comments, empty lines and a byte order mark are skipped."""
    path = tmp_path / "keys"
    path.write_text("# ours\naccessKey=AK\n\nsecretKey: hush=1\n", encoding="utf-8-sig")
    assert CredentialsFile(str(path)).current() == BY_OLD


def test_a_rotation_counts_from_the_next_signature(file: Path) -> None:
    """If the file is replaced, the next request is signed with the new credentials."""
    source = CredentialsFile(str(file))
    before = sign(source, 30, {"topic": "T"}, b"")

    fresh = file.with_suffix(".new")
    fresh.write_text("accessKey=AK2\nsecretKey=other\nsecurityToken=T\n")
    age(fresh)
    fresh.replace(file)

    after = sign(source, 30, {"topic": "T"}, b"")
    assert (before["AccessKey"], after["AccessKey"], after["SecurityToken"]) == ("AK", "AK2", "T")
    assert before["Signature"] != after["Signature"]


# --- a file that is being changed ------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", ["", "accessKey=AK2\n", "accessKey=AK2\nsecretKey", NEW[:-3]])
def test_a_file_that_is_half_written_is_not_used(file: Path, half: str) -> None:
    """While a file is rewritten in place, requests are signed with the old credentials, then with the new ones."""
    source = CredentialsFile(str(file))
    assert source.current() == BY_OLD

    file.write_text(half)
    assert source.current() == BY_OLD
    file.write_text(NEW)
    age(file)
    assert source.current() == BY_NEW


def test_a_file_that_is_deleted_and_created_again(file: Path) -> None:
    """While a file is absent or half written again, requests are signed with the old credentials, then the new ones."""
    source = CredentialsFile(str(file))
    assert source.current() == BY_OLD

    file.unlink()
    assert source.current() == BY_OLD
    file.write_text(NEW[:-3])
    assert source.current() == BY_OLD
    file.write_text(NEW)
    age(file)
    assert source.current() == BY_NEW


@pytest.mark.parametrize("broken", [None, "", "nonsense hush"])
def test_last_good_credentials_have_a_grace_time(
    file: Path, clocks: Clocks, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """If a file stays absent or broken, its last good credentials are used for the grace time, with one warning."""
    watched = clocks.watch(file)
    file.unlink()
    if broken is not None:
        file.write_text(broken)

    for _ in range(3):
        assert watched.current() == BY_OLD
        clocks.now_s += GRACE_S / 3
    with pytest.raises(OptionError, match=r"cannot be read \(.*\) since 20\d\d-.*Z, and .* too old") as refused:
        watched.current()
    [warning] = caplog.messages
    assert f"up to {GRACE_S:g} s" in warning and str(file) in warning
    assert str(file) in str(refused.value) and "hush" not in str(refused.value) + warning


def test_a_repaired_file_ends_the_grace_time(file: Path, clocks: Clocks) -> None:
    """After a file was good again, its next failure has a whole grace time of its own, also if the first was over."""
    watched = clocks.watch(file)
    for _ in range(2):
        file.unlink()
        assert watched.current() == BY_OLD
        clocks.now_s += GRACE_S
        with pytest.raises(OptionError):
            watched.current()
        file.write_text(OLD)
        assert watched.current() == BY_OLD


def test_a_file_that_is_written_again_has_no_new_grace_time(file: Path, clocks: Clocks) -> None:
    """If a file was absent for the grace time, that it is being written now does not prolong it."""
    watched = clocks.watch(file)
    file.unlink()
    assert watched.current() == BY_OLD
    clocks.now_s += GRACE_S
    clocks.lateness_s = 0
    file.write_text(NEW[:-3])
    with pytest.raises(OptionError, match="it is being written"):
        watched.current()
    file.write_text(NEW)
    age(file)
    assert watched.current() == BY_NEW


def test_a_file_is_read_once_per_change(file: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is not read for each request, neither while it is good nor while it is broken."""
    watched, opened, really_open = clocks.watch(file), list[object](), os.open

    def count(path: str, *args: int, **more: int) -> int:
        opened.append(path)
        return really_open(path, *args, **more)

    monkeypatch.setattr(os, "open", count)
    for text in (NEW, "broken"):
        file.write_text(text)
        for _ in range(10):
            assert watched.current() == BY_NEW
    assert opened == [str(file)] * 2


def test_a_passing_read_error_is_forgotten(file: Path, clocks: Clocks, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the system cannot open a good file for a moment, the next call reads it, although it has not changed."""
    watched = clocks.watch(file)
    file.write_text(NEW)
    with monkeypatch.context() as patched:

        def fail(*_: object) -> int:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        patched.setattr(os, "open", fail)
        assert watched.current() == BY_OLD
    assert watched.current() == BY_NEW


def test_a_file_that_another_thread_finds_repaired_meanwhile(file: Path) -> None:
    """If another thread reads the repaired file while this one decides about the grace time, both get credentials."""
    lookups = list[Credentials]()

    def clock() -> float:
        if not file.exists():
            file.write_text(OLD)
            lookups.append(watched.current())
        return 1000.0

    watched = WatchedFile(CredentialsFile(str(file)), clock, lambda: time.time() + 2 * SETTLING_S)
    for _ in range(3):
        assert watched.current() == BY_OLD
        file.unlink()
    assert lookups == [BY_OLD] * 2


def test_any_number_of_files_has_a_grace_time(tmp_path: Path) -> None:
    """A process that reads many files keeps the good credentials of each."""
    paths = [tmp_path / f"keys{number}" for number in range(40)]
    for path in paths:
        path.write_text(OLD)
        assert CredentialsFile(str(path)).current() == BY_OLD
    paths[0].unlink()
    assert CredentialsFile(str(paths[0])).current() == BY_OLD


def test_checked_credentials_serve_the_first_request(file: Path) -> None:
    """If the file is emptied between the check of the options and the first request, the request can be signed."""
    cluster = parse_helper_options({"nameServer": "ns:9876", "credentialsFile": str(file)}).cluster
    file.write_text("")
    assert cluster.credentials is not None and cluster.credentials.current() == BY_OLD


def test_a_broken_file_fails_a_new_query_at_once(file: Path) -> None:
    """If the file is broken when a query starts, it is refused, although this process has read good credentials."""
    options = LEAST | {"credentialsFile": str(file)}
    assert read(options).cluster.credentials == CredentialsFile(str(file))
    assert CredentialsFile(str(file)).current() == BY_OLD

    file.write_text("accessKey=AK2")
    assert "missing" in str(error_of(options))


# --- files that are wrong --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("accessKey=AK\nsecretKey=\n", "line 2"),
        ("accessKey=AK\npassword=hush\n", "line 2"),
        ("hush\n", "line 1"),
        ("accessKey=AK\naccessKey=BK\nsecretKey=hush", "line 2"),
        ("accessKey=AK\n", "missing"),
        (OLD + "#" * MOST_BYTES, f"more than {MOST_BYTES} bytes"),
    ],
)
def test_what_is_wrong_in_a_file(tmp_path: Path, text: str, what: str) -> None:
    """If the file has an error, the error names the option, the file and the line, but shows no text of the file."""
    path = tmp_path / "keys"
    path.write_text(text)

    error = error_of(LEAST | {"credentialsFile": str(path)})

    assert (error.option, error.code) == ("credentialsFile", "OPTION_VALUE")
    assert what in str(error) and str(path) in str(error) and "hush" not in str(error)


def test_a_file_in_another_encoding(tmp_path: Path) -> None:
    """If the file is not UTF-8, the error says so and quotes no byte of it."""
    path = tmp_path / "keys"
    path.write_bytes(b"accessKey=AK\nsecretKey=\xe9\n")
    error = error_of(LEAST | {"credentialsFile": str(path)})
    assert "not UTF-8" in str(error) and "e9" not in str(error) and error.__cause__ is None


@pytest.mark.parametrize("path", ["/no/such/file", "/", "a\0b"])
def test_a_file_that_cannot_be_read(path: str) -> None:
    """If the file cannot be read, the error names the option."""
    with pytest.raises(OptionError, match="cannot be read"):
        CredentialsFile(path).current()
    assert error_of(LEAST | {"credentialsFile": path}).code == "OPTION_VALUE"


def test_no_device_and_no_pipe_is_read(tmp_path: Path) -> None:
    """If the path is a device without end, or a pipe without a writer, it is refused at once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, "/dev/zero"):
        with pytest.raises(OptionError, match="not a regular file"):
            CredentialsFile(str(path)).current()


def test_links_are_followed_as_kubernetes_makes_them(tmp_path: Path) -> None:
    """A link to a link is followed; if the inner one is replaced at once, the next request has the new credentials."""
    for name, text in (("first", OLD), ("second", NEW)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keys").write_text(text)
        age(tmp_path / name / "keys")
    (tmp_path / "..data").symlink_to("first")
    (tmp_path / "keys").symlink_to("..data/keys")
    source = CredentialsFile(str(tmp_path / "keys"))
    assert source.current() == BY_OLD

    (tmp_path / "..data_tmp").symlink_to("second")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    assert source.current() == BY_NEW


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o644, False), (0o664, True), (0o606, True)])
def test_a_file_that_others_may_write_is_warned_about_once(
    file: Path, mode: int, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """If other users may write the file, that is logged once; that they may read it is left to the user."""
    file.chmod(mode)
    for text in (OLD, NEW):
        file.write_text(text)
        age(file)
        CredentialsFile(str(file)).check()
        CredentialsFile(str(file)).current()
    assert len(caplog.messages) == warns
    assert all(f"mode {mode:04o}" in text and str(file) in text for text in caplog.messages)


def test_secrets_stay_out_of_pickles(file: Path) -> None:
    """Pickled settings hold the path of the file and no secret, even after the file was read."""
    options = read(LEAST | {"credentialsFile": str(file)})

    assert options.cluster.credentials == CredentialsFile(str(file))
    assert b"hush" not in pickle.dumps(options) and "hush" not in repr(options)
    assert hash(options.cluster) == hash(pickle.loads(pickle.dumps(options)).cluster)
