"""Test which cluster a command talks to: flags, environment, profiles, secrets, and errors in the file of profiles."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pyspark_rocketmq.cli.connection import Wanted, find_options, name_connection, raw_options
from pyspark_rocketmq.errors import OptionError

PROFILES = """
default = "dev"

[dev]
nameServer = "dev:9876"

[prod]
nameServer = "prod:9876"
useTLS = true
accessKey = "reader"
secretKey = "from-profile"

[no-address]
useTLS = false
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with a file of profiles."""
    return write_profiles(tmp_path, PROFILES)


def write_profiles(folder: Path, text: str) -> dict[str, str]:
    """Write a file of profiles that only its owner may read, and return the environment that leads to it."""
    path = folder / "pyspark-rocketmq" / "config.toml"
    path.parent.mkdir()
    path.write_text(text)
    path.chmod(0o600)
    return {"XDG_CONFIG_HOME": str(folder)}


def address(wanted: Wanted, env: Mapping[str, str]) -> str:
    """Return the name servers that a command would use."""
    return ";".join(map(str, find_options(wanted, env=env).cluster.name_servers))


def test_the_first_that_names_a_cluster_decides(env: dict[str, str]) -> None:
    """In order of rank: a flag, a chosen profile, NAMESRV_ADDR, the profile in the environment, the default profile."""
    everything = {**env, "NAMESRV_ADDR": "env:9876", "PYSPARK_ROCKETMQ_PROFILE": "prod"}

    assert address(Wanted("flag:9876", "prod"), everything) == "flag:9876"
    assert address(Wanted(None, "prod"), everything) == "prod:9876"
    assert address(Wanted(), everything) == "env:9876"
    assert address(Wanted(), {**env, "PYSPARK_ROCKETMQ_PROFILE": "prod"}) == "prod:9876"
    assert address(Wanted(), env) == "dev:9876"


def test_credentials_never_go_to_another_cluster(env: dict[str, str]) -> None:
    """A cluster that a flag or NAMESRV_ADDR names gets no option of a profile that was not asked for."""
    default = {**env, "PYSPARK_ROCKETMQ_PROFILE": "prod"}

    assert raw_options(Wanted("flag:9876"), default, print) == {"nameServer": "flag:9876"}
    assert raw_options(Wanted(), {**default, "NAMESRV_ADDR": "env:9876"}, print) == {"nameServer": "env:9876"}
    assert raw_options(Wanted("flag:9876", "prod"), default, print)["secretKey"] == "from-profile"


@pytest.mark.parametrize("name", ["nameServer", "nameServerAddress", "NAMESERVER"])
def test_an_address_in_an_option_is_that_of_a_flag(env: dict[str, str], name: str) -> None:
    """An address in `-o`, by any name, names the cluster: no profile counts that was not asked for."""
    default = {**env, "PYSPARK_ROCKETMQ_PROFILE": "prod"}
    wanted = (f"{name}=other:9876",)

    assert raw_options(Wanted(None, None, wanted), default, print) == {name: "other:9876"}
    assert raw_options(Wanted(None, None, wanted), {"NAMESRV_ADDR": "env:9876"}, print) == {name: "other:9876"}
    assert raw_options(Wanted("flag:9876", None, wanted), default, print) == {"nameServer": "flag:9876"}
    chosen = raw_options(Wanted(None, "prod", wanted), default, print)
    assert chosen == {name: "other:9876", "useTLS": "true", "accessKey": "reader", "secretKey": "from-profile"}


def test_a_profile_without_an_address_takes_it_from_the_environment(env: dict[str, str]) -> None:
    """A chosen profile may leave the address to NAMESRV_ADDR."""
    assert address(Wanted(None, "no-address"), {**env, "NAMESRV_ADDR": "env:9876"}) == "env:9876"
    with pytest.raises(OptionError, match="OPTION_MISSING"):
        address(Wanted(None, "no-address"), env)


def test_options_of_the_command_line_outrank_a_profile(env: dict[str, str]) -> None:
    """`-o` changes single options of a profile, by any name of the option."""
    options = find_options(Wanted(None, "prod", ("useTLS=false", "mqClientApiTimeout=5s")), env=env)

    assert options.cluster.net.tls is None
    assert options.cluster.net.request_timeout_s == 5.0


def test_a_profile_gives_way_to_any_name_of_an_option(env: dict[str, str]) -> None:
    """An option of `-o` takes the place of the profile's, also if the two are spelt differently."""
    keys = ("USETLS=false", "ACCESSKEY=writer", "SECRETKEY=from-flag")

    options = find_options(Wanted(None, "prod", keys), env=env)

    assert options.cluster.net.tls is None
    assert credentials(Wanted(None, "prod", keys), env) == ("writer", "from-flag", None)


def test_a_file_of_windows_is_read(tmp_path: Path) -> None:
    """A mark at the beginning and line ends of two characters are no errors."""
    env = write_profiles(tmp_path, "\ufeff" + PROFILES.replace("\n", "\r\n"))

    assert address(Wanted(), env) == "dev:9876"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[dev\n", "unreadable: .*line 1"),
        ("default = 3\n[dev]\n", "default is not text"),
        ('default = "other"\n[dev]\n', "no such profile; known are: dev"),
        ('default = "dev"\n[dev]\nnameServer = ["a:1"]\n', "nameServer in profile dev is neither text"),
        ('default = "dev"\n[dev]\nnameServer = "no address"\n', "not an address"),
        ('default = "dev"\n[dev]\nnamServer = "a:1"\n', "OPTION_MISSING|did you mean"),
        ('nameServer = "a:1"\n[dev]\n', "nameServer stands outside of the profiles"),
        ('[default]\nnameServer = "a:1"\n', r"\[default\] cannot be a profile"),
        (f"default = {'[' * 9999}", "unreadable: .*recursion"),
        (f'default = "dev"\n[dev]\nnameServer = 0x{"f" * 9999}\n', "nameServer in profile dev is neither text nor"),
    ],
)
def test_errors_in_the_file_are_told(tmp_path: Path, text: str, complaint: str) -> None:
    """A file of profiles with an error is refused with what is wrong, and where."""
    with pytest.raises(OptionError, match=complaint):
        find_options(Wanted(), env=write_profiles(tmp_path, text))


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    """A profile cannot be chosen if there is no file; the error has the file's path."""
    with pytest.raises(OptionError, match=r"there is no file .*config\.toml"):
        find_options(Wanted(None, "prod"), env={"XDG_CONFIG_HOME": str(tmp_path)})


def test_secrets_of_a_file_that_others_may_read_are_warned_of(tmp_path: Path) -> None:
    """A warning names the file if it holds a secret and others may read it; a file without secrets may be read."""
    env, said = write_profiles(tmp_path, PROFILES), list[str]()
    path = tmp_path / "pyspark-rocketmq" / "config.toml"
    path.chmod(0o644)

    find_options(Wanted(None, "dev"), env=env, warn=said.append)
    assert said == []
    find_options(Wanted(None, "prod"), env=env, warn=said.append)

    assert len(said) == 1 and str(path) in said[0] and "chmod 600" in said[0]
    assert "from-profile" not in said[0]


KEYS = {
    "PYSPARK_ROCKETMQ_ACCESS_KEY": "me",
    "PYSPARK_ROCKETMQ_SECRET_KEY": "from-env",
    "PYSPARK_ROCKETMQ_SECURITY_TOKEN": "token-from-env",
}


def credentials(wanted: Wanted, env: Mapping[str, str]) -> tuple[str, str, str | None]:
    """Return access key, secret and token with which a command signs."""
    found = find_options(wanted, env=env).cluster.credentials
    assert found is not None
    now = found.current()
    return now.access_key, now.secret_key, now.security_token


def test_secrets_come_from_the_environment() -> None:
    """Environment variables give keys and token, unless the command line gives a part of them."""
    assert credentials(Wanted("a:1"), KEYS) == ("me", "from-env", "token-from-env")
    given = ("ACCESSKEY=flag", "secretKey=from-flag")
    assert credentials(Wanted("a:1", None, given), KEYS) == ("flag", "from-flag", None)


def test_no_secret_of_the_environment_completes_those_of_a_profile(env: dict[str, str]) -> None:
    """The environment's token may be another cluster's, so it never goes with a profile's keys."""
    assert credentials(Wanted(None, "prod"), {**env, **KEYS}) == ("reader", "from-profile", None)


@pytest.mark.parametrize("name", ["tls", "seckretKey", "somethingElse"])
def test_a_name_that_is_no_option_is_refused(tmp_path: Path, name: str) -> None:
    """A misspelt name would have no effect, such as no encryption; `-o` and profiles refuse it without its value."""
    profiles = write_profiles(tmp_path, f'default = "dev"\n[dev]\nnameServer = "a:1"\n{name} = "tell-nobody"\n')

    for wanted, env in [(Wanted("a:1", None, (f"{name}=tell-nobody",)), {}), (Wanted(), profiles)]:
        with pytest.raises(OptionError, match="OPTION_UNKNOWN") as refused:
            find_options(wanted, env=env)
        assert name in str(refused.value) and "tell-nobody" not in str(refused.value)


def test_options_say_how_strict_names_are() -> None:
    """With `strictOptions` the library's own rule about unknown names holds."""
    assert find_options(Wanted("a:1", None, ("strictOptions=warn", "somethingElse=1")), env={})


def test_repetitions_are_few_unless_they_are_chosen() -> None:
    """A command repeats a request once, since a person waits; options for repetitions count."""
    usual = find_options(Wanted("a:1"), env={}).cluster
    chosen = ("fetchOffset.numRetries=7", "fetchOffset.retryIntervalMs=30s")
    more = find_options(Wanted("a:1", None, chosen), env={}).cluster

    assert (usual.retries, usual.pause.longest_s) == (1, 0.2)
    assert (more.retries, more.pause.longest_s) == (7, 30.0)


def test_a_file_of_credentials_that_others_may_read_is_warned_of(tmp_path: Path) -> None:
    """A warning names a file of credentials that others may read; a private one gives none."""
    path, said = tmp_path / "credentials", list[str]()
    path.write_text("accessKey=me\nsecretKey=tell-nobody\n")
    for mode in (0o600, 0o644):
        path.chmod(mode)
        find_options(Wanted("a:1", None, (f"credentialsFile={path}",)), env={}, warn=said.append)

    assert len(said) == 1 and f"{path}: other users may read the secrets (mode 644)" in said[0]


def test_a_user_without_a_home_needs_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container without a home directory a flag suffices; a profile is refused with what to set."""

    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", home)

    assert address(Wanted("a:1"), {}) == "a:1"
    with pytest.raises(OptionError, match="OPTION_MISSING"):
        find_options(Wanted(), env={})
    with pytest.raises(OptionError, match="no home directory; set HOME or XDG_CONFIG_HOME"):
        find_options(Wanted(None, "prod"), env={})


def test_secrets_on_the_command_line_are_warned_of_and_not_shown() -> None:
    """A secret as a value of `-o` gives a warning with better ways; neither it nor an error shows the secret."""
    said: list[str] = []

    with pytest.raises(OptionError) as refused:
        find_options(Wanted("a:1", None, ("secretKey=tell-nobody",)), env={}, warn=said.append)

    assert len(said) == 1 and "credentialsFile" in said[0]
    assert "tell-nobody" not in said[0] + str(refused.value)


def test_a_word_that_is_no_option_is_not_repeated() -> None:
    """A value of `-o` without an equals sign may be a secret, so the error does not show it."""
    with pytest.raises(OptionError) as refused:
        find_options(Wanted("a:1", None, ("tell-nobody",)), env={})

    assert "tell-nobody" not in str(refused.value) and "NAME=VALUE" in str(refused.value)


def test_secrets_are_asked_for() -> None:
    """A dash as the value of a secret asks the user; without a terminal this is an error."""
    wanted = Wanted("a:1", None, ("accessKey=me", "secretKey=-"))

    asked = find_options(wanted, env={}, ask=lambda option: f"typed {option}").cluster.credentials

    assert asked is not None and asked.current().secret_key == "typed secretKey"
    with pytest.raises(OptionError, match="no terminal"):
        find_options(wanted, env={})


def test_words_that_lead_to_the_cluster_hold_no_secret(env: dict[str, str]) -> None:
    """The words for another command name address, profile and options; a secret is asked for there."""
    options = ("nameServer=a:1", "secretKey=tell-nobody", "strictOptions=warn", "sekretKey=tell-nobody")
    wanted = Wanted(None, "prod", options)

    words = name_connection(wanted, ["a:1", "b:2"], env)

    assert words == ("--profile", "prod", "--name-server", "a:1;b:2", "-o", "secretKey=-", "-o", "strictOptions=warn")
