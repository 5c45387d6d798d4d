#!/usr/bin/env python3
"""Make a release: check the tree and the suite, build, check what was built, then date the changelog and tag.

    tools/release.py            a rehearsal: everything but the date, the commit and the tag
    tools/release.py --apply    the release of the version in pyspark_rocketmq/_version.py

Both build from an export of the commit, so that nothing which is not committed gets into a wheel. Nothing is uploaded.
It needs the packages of the extra `dev`; `make release` installs them.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUITE = ".ci/run"
TOOLS = ("build", "twine")
UNDATED = "unreleased"
REHEARSED = "a rehearsal: nothing was committed or tagged; --apply does it"


class Refusal(Exception):
    """A reason why there can be no release, with what to do."""


def main() -> int:
    """Release, or rehearse it; return 1 after a refusal."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--apply", action="store_true", help="date the changelog, commit it, and tag the commit")
    is_applied = parser.parse_args().apply
    try:
        version = find_version()
        check_tree(version)
        commit = find_commit()
        changelog = date_changelog(version)
        check_suite(commit)
        files = build(version, commit, changelog)
        print("\n".join(["built and checked:", *(f"  {file}" for file in files)]), flush=True)
        if is_applied:
            tag(version, commit, changelog)
    except Refusal as refusal:
        print(f"no release: {refusal}", file=sys.stderr)
        return 1
    print("\n".join(next_steps(version, files) if is_applied else [REHEARSED]))
    return 0


def find_version() -> str:
    """Return the version to release; raise if it is not of three numbers."""
    text = (ROOT / "pyspark_rocketmq" / "_version.py").read_text()
    found = re.fullmatch(r'__version__ = "(\d+\.\d+\.\d+)"\n', text)
    if not found:
        raise Refusal(f"_version.py holds {text.strip()!r}, which is no version of three numbers")
    return found[1]


def check_tree(version: str) -> None:
    """Raise if there are changes, no branch, a tag of the version, a file that names another one, or tools missing."""
    check_clean("commit them")
    if not git("branch", "--show-current"):
        raise Refusal("no branch is checked out, so none would have the commit of the release; check out a branch")
    if git("tag", "--list", tag_of(version)):
        raise Refusal(f"{tag_of(version)} was released; raise the version in pyspark_rocketmq/_version.py")
    if f"\nversion: {version}\n" not in (ROOT / "CITATION.cff").read_text():
        raise Refusal(f"CITATION.cff has another version; write version: {version}")
    if missing := [tool for tool in TOOLS if find_spec(tool) is None]:
        raise Refusal(f"{' and '.join(missing)} is missing for {sys.executable}; make release installs the extra dev")


def check_clean(advice: str) -> None:
    """Raise if the tree has uncommitted changes."""
    if changes := git("status", "--porcelain").splitlines():
        raise Refusal(f"the tree has {len(changes)} uncommitted changes, the first is {changes[0]!r}; {advice}")


def find_commit() -> str:
    """Return the id of the commit that is checked out."""
    return git("rev-parse", "HEAD").strip()


def check_commit(commit: str) -> None:
    """Raise unless the tree still is this commit, and nothing else."""
    if (now := find_commit()) != commit:
        raise Refusal(f"{now[:12]} is checked out, and the suite was run on {commit[:12]}; start again")
    check_clean("they came while the suite ran; see what writes them, and start again")


def date_changelog(version: str) -> str:
    """Return the changelog with today's date at the version's section; raise if that is missing, empty or not first."""
    text = (ROOT / "CHANGELOG.md").read_text()
    heads = list(re.finditer(r"^## .*$", text, flags=re.MULTILINE))
    wanted = f"## [{version}] - "
    if not heads or not re.fullmatch(re.escape(wanted) + rf"(?:{UNDATED}|\d{{4}}-\d\d-\d\d)", heads[0][0]):
        raise Refusal(f"CHANGELOG.md does not begin with '{wanted}{UNDATED}'; describe the release there")
    if any(head[0].startswith(f"## [{version}]") for head in heads[1:]):
        raise Refusal(f"CHANGELOG.md has two sections {version}; raise the version, or make them one")
    end = heads[1].start() if len(heads) > 1 else len(text)
    if not re.search(r"^- ", text[heads[0].end() : end], flags=re.MULTILINE):
        raise Refusal(f"the section {version} of CHANGELOG.md lists nothing; describe the release there")
    return text.replace(f"{wanted}{UNDATED}\n", f"{wanted}{datetime.now(UTC):%Y-%m-%d}\n", 1)


def check_suite(commit: str) -> None:
    """Raise if the checks that every change must pass fail, or ran on anything but this commit."""
    print(f"==> {SUITE}", flush=True)
    code = subprocess.run([ROOT / SUITE], cwd=ROOT, check=False).returncode
    if code:
        raise Refusal(f"the suite is red: {SUITE} ended with exit code {code}; mend it first")
    check_commit(commit)


def build(version: str, commit: str, changelog: str) -> list[Path]:
    """Build wheel and sdist from an export of the commit, check them, and return their paths in the repository."""
    print("==> building", flush=True)
    with tempfile.TemporaryDirectory(prefix="release-") as name:
        tree, built = Path(name) / "tree", Path(name) / "dist"
        tree.mkdir()
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["tar", "-x", "-C", tree], input=archive, check=True)
        (tree / "CHANGELOG.md").write_text(changelog)
        run_tool("build", "--outdir", str(built), str(tree))
        files = sorted(built.iterdir())
        if [version in file.name for file in files] != [True, True]:
            raise Refusal(f"not a wheel and an sdist of {version} were built, but {[file.name for file in files]}")
        run_tool("twine", "check", "--strict", *map(str, files))
        (ROOT / "dist").mkdir(exist_ok=True)
        return [Path(shutil.copy(file, ROOT / "dist")).relative_to(ROOT) for file in files]


def run_tool(tool: str, *words: str) -> None:
    """Run a tool of the extra `dev`; raise if it fails."""
    if code := subprocess.run([sys.executable, "-m", tool, *words], check=False).returncode:
        raise Refusal(f"{tool} ended with exit code {code}")


def tag(version: str, commit: str, changelog: str) -> None:
    """Commit the dated changelog, and tag the commit; a commit that fails leaves the changelog as it was."""
    check_commit(commit)
    if changelog != (ROOT / "CHANGELOG.md").read_text():
        (ROOT / "CHANGELOG.md").write_text(changelog)
        try:
            git("commit", "--quiet", "--message", f"release: {version}", "CHANGELOG.md")
        except BaseException:
            git("checkout", "--quiet", "HEAD", "--", "CHANGELOG.md")
            raise
    git("tag", "--annotate", "--message", f"pyspark_rocketmq {version}", tag_of(version))


def next_steps(version: str, files: list[Path]) -> Iterator[str]:
    """Yield what is left to do after a release."""
    yield f"tagged {tag_of(version)}; next:"
    yield f"  git push origin HEAD {tag_of(version)}"
    yield f"  python -m twine upload {' '.join(map(str, files))}"


def tag_of(version: str) -> str:
    """Return the name of a version's tag."""
    return f"v{version}"


def git(*words: str) -> str:
    """Run git in the repository, and return what it prints; raise if it fails."""
    ran = subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if ran.returncode:
        raise Refusal(f"git {words[0]} ended with exit code {ran.returncode}; see above")
    return ran.stdout


if __name__ == "__main__":
    sys.exit(main())
