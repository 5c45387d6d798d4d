"""Test the release script in a small repository with tools that do little: refusals, a rehearsal and a release."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pyspark_rocketmq

ROOT = Path(__file__).parents[2]
SCRIPT = "tools/release.py"
CHANGELOG = "# Changelog\n\n## [1.2.3] - unreleased\n\n### Added\n\n- A thing.\n\n## [1.2.2] - 2026-01-01\n\n- Less.\n"
FILES = {
    "pyspark_rocketmq/_version.py": '__version__ = "1.2.3"\n',
    "CITATION.cff": "title: t\nversion: 1.2.3\nlicense: Apache-2.0\n",
    "CHANGELOG.md": CHANGELOG,
    ".ci/run": "#!/bin/sh\necho the suite runs\n",
    ".gitignore": "dist/\n",
}
# They stand for the real tools, which `test_wheel.py` runs: each checks what it is given.
TOOLS = {
    "build.py": """import pathlib, sys
_, option, out, tree = sys.argv
pathlib.Path(out).mkdir()
text = pathlib.Path(tree, "CHANGELOG.md").read_text()
for name in ("pyspark_rocketmq-1.2.3-py3-none-any.whl", "pyspark_rocketmq-1.2.3.tar.gz"):
    pathlib.Path(out, name).write_text(text)
""",
    "twine.py": """import pathlib, sys
assert sys.argv[1:3] == ["check", "--strict"] and len(sys.argv) == 5
sys.exit("BROKEN" in pathlib.Path(sys.argv[3]).read_text())
""",
}


class Repository:
    """A repository with the release script, a version and a suite."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "repository"
        self._tools = folder / "site"
        for name, text in FILES.items():
            self.write(name, text)
        (self.folder / ".ci" / "run").chmod(0o755)
        (self.folder / "tools").mkdir()
        shutil.copy(ROOT / SCRIPT, self.folder / SCRIPT)
        self._tools.mkdir()
        for name, text in TOOLS.items():
            (self._tools / name).write_text(text)
        self.git("init", "--quiet", "--initial-branch", "main")
        self.commit()

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self) -> None:
        """Commit all changes."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "a change")

    def git(self, *words: str) -> str:
        """Run git, and return what it prints."""
        return subprocess.run(
            ["git", *words], cwd=self.folder, env=self._environment(), stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def release(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        return subprocess.run(
            [sys.executable, SCRIPT, *words],
            cwd=self.folder, env=self._environment(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def _environment(self) -> dict[str, str]:
        who = {f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull, "PYTHONPATH": str(self._tools)}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository that can be released."""
    return Repository(tmp_path)


def refused(repository: Repository) -> str:
    """Release with `--apply`; return the reason of the refusal, after which nothing is built, committed or tagged."""
    head = repository.git("rev-parse", "HEAD")
    ran = repository.release("--apply")
    assert ran.returncode == 1 and ran.stderr.startswith("no release: ")
    assert (repository.git("rev-parse", "HEAD"), repository.git("tag")) == (head, "")
    assert not (repository.folder / "dist").exists()
    return ran.stderr


@pytest.mark.parametrize("name", ["CHANGELOG.md", "new.txt"])
def test_a_dirty_tree_is_refused(repository: Repository, name: str) -> None:
    """A changed file and a new one are refused, before the suite runs."""
    repository.write(name, "changed")

    assert f"{name}'; commit them" in refused(repository)
    assert "the suite runs" not in repository.release().stdout


def test_a_red_suite_is_refused(repository: Repository) -> None:
    """If the suite fails, nothing is built."""
    repository.write(".ci/run", "#!/bin/sh\nexit 3\n")
    repository.commit()

    assert "the suite is red: .ci/run ended with exit code 3" in refused(repository)


@pytest.mark.parametrize(
    ("changelog", "reason"),
    [
        ("# Changelog\n\n## [1.2.2] - 2026-01-01\n\n- Less.\n", "does not begin with '## [1.2.3] - unreleased'"),
        ("# Changelog\n\n## [Unreleased]\n\n- New.\n\n" + CHANGELOG, "does not begin with"),
        ("## [1.2.3] - soon\n\n- New.\n", "does not begin with"),
        ("## [1.2.3] - unreleased\n\n## [1.2.2] - 2026-01-01\n\n- Less.\n", "lists nothing"),
        (CHANGELOG.replace("[1.2.2]", "[1.2.3]"), "has two sections 1.2.3"),
    ],
)
def test_a_changelog_without_the_version_is_refused(repository: Repository, changelog: str, reason: str) -> None:
    """The first section of the changelog must be the version's, and must list something."""
    repository.write("CHANGELOG.md", changelog)
    repository.commit()

    assert reason in refused(repository)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("pyspark_rocketmq/_version.py", '__version__ = "1.2.3.dev0"\n', "no version of three numbers"),
        ("CITATION.cff", "title: t\nversion: 1.2.2\nlicense: Apache-2.0\n", "write version: 1.2.3"),
        ("CHANGELOG.md", CHANGELOG.replace("A thing", "BROKEN"), "twine ended with exit code 1"),
    ],
)
def test_files_that_do_not_fit_are_refused(repository: Repository, name: str, text: str, reason: str) -> None:
    """A version that is none, another one in the citation, and a distribution that twine refuses end the release."""
    repository.write(name, text)
    repository.commit()

    assert reason in refused(repository)


def test_a_release_needs_a_branch(repository: Repository) -> None:
    """Without a branch, the commit of the release would be on none."""
    repository.git("checkout", "--quiet", "--detach")

    assert "check out a branch" in refused(repository)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("git commit --quiet --allow-empty --message other", "start again"),
        ("echo more >> CITATION.cff", "' M CITATION.cff'; they came while the suite ran"),
    ],
)
def test_only_what_was_tested_is_released(repository: Repository, command: str, reason: str) -> None:
    """A commit or a change that comes while the suite runs is not released."""
    repository.write(".ci/run", f"#!/bin/sh\n{command}\n")
    repository.commit()

    ran = repository.release("--apply")

    assert ran.returncode == 1 and ran.stderr.startswith("no release: ") and reason in ran.stderr
    assert repository.git("tag") == "" and not (repository.folder / "dist").exists()


def test_a_commit_that_fails_leaves_the_tree_as_it_was(repository: Repository) -> None:
    """If git refuses the commit of the release, the next try is not refused because of a dirty tree."""
    hook = ".git/hooks/pre-commit"
    repository.write(hook, "#!/bin/sh\nexit 1\n")
    (repository.folder / hook).chmod(0o755)

    ran = repository.release("--apply")

    assert (ran.returncode, ran.stderr) == (1, "no release: git commit ended with exit code 1; see above\n")
    assert (repository.git("tag"), repository.git("status", "--porcelain")) == ("", "")


def test_a_release_that_was_cut_off_is_completed(repository: Repository) -> None:
    """If git fails to tag, the commit stays, and the next run tags it."""
    (repository.folder / ".git" / "refs" / "tags").rmdir()
    repository.write(".git/refs/tags", "no folder")

    assert "no release: git tag ended with exit code" in repository.release("--apply").stderr
    (repository.folder / ".git" / "refs" / "tags").unlink()
    head = repository.git("rev-parse", "HEAD")
    assert repository.release("--apply").returncode == 0

    assert repository.git("rev-parse", "v1.2.3^{commit}") == head
    assert repository.git("log", "--format=%s").splitlines() == ["release: 1.2.3", "a change"]


def test_a_version_is_released_once(repository: Repository) -> None:
    """A version that has a tag is refused."""
    repository.git("tag", "v1.2.3")

    assert "v1.2.3 was released; raise the version" in repository.release("--apply").stderr


def test_a_rehearsal_builds_and_changes_nothing(repository: Repository) -> None:
    """Without `--apply` the script runs the suite and builds the distributions, and commits and tags nothing."""
    ran = repository.release()

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "the suite runs" in ran.stdout and "a rehearsal: nothing was committed or tagged" in ran.stdout
    assert (repository.git("tag"), repository.git("status", "--porcelain")) == ("", "")
    assert len(list((repository.folder / "dist").iterdir())) == 2


def test_a_release_is_dated_committed_and_tagged(repository: Repository) -> None:
    """With `--apply` the changelog gets its date, in the commit that is tagged and in what is built."""
    ran = repository.release("--apply")

    assert (ran.returncode, ran.stderr) == (0, "")
    dated = repository.git("show", "v1.2.3:CHANGELOG.md")
    assert re.search(r"^## \[1\.2\.3\] - 20\d\d-\d\d-\d\d$", dated, flags=re.MULTILINE)
    assert dated.replace(dated.splitlines()[2], CHANGELOG.splitlines()[2]) == CHANGELOG
    assert repository.git("log", "--format=%s").splitlines()[0] == "release: 1.2.3"
    assert {path.read_text() for path in (repository.folder / "dist").iterdir()} == {dated}
    assert repository.git("status", "--porcelain") == ""


def test_only_what_was_built_is_to_be_uploaded(repository: Repository) -> None:
    """The command to upload names the two files, not others whose names begin with the version."""
    repository.write("dist/pyspark_rocketmq-1.2.3.dev0.tar.gz", "old")

    said = repository.release("--apply").stdout

    files = "dist/pyspark_rocketmq-1.2.3-py3-none-any.whl dist/pyspark_rocketmq-1.2.3.tar.gz"
    assert said.endswith(f"\n  python -m twine upload {files}\n")


def test_this_version_has_a_section() -> None:
    """The changelog begins with this version's section; citation, README and names of wheels on pages have it."""
    version = pyspark_rocketmq.__version__
    head = re.findall(r"^## .*$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[0]

    assert re.fullmatch(rf"## \[{re.escape(version)}\] - (?:unreleased|\d{{4}}-\d\d-\d\d)", head)
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"**Status:** {version}, " in (ROOT / "README.md").read_text()
    wheels = {
        found for page in ROOT.glob("docs/**/*.md") for found in re.findall(r"rocketmq-([\d.]+)-py3", page.read_text())
    }
    assert wheels == {version}
