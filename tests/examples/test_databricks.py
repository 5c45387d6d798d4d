"""Check the job definitions for Databricks against the jobs that they start; none of them was run there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.examples.jobs import EXAMPLES, JOBS, load, parse

DEFINITIONS = sorted((EXAMPLES / "databricks").glob("*.json"))

every_definition = pytest.mark.parametrize("path", DEFINITIONS, ids=lambda path: path.stem)


def test_every_job_has_a_definition() -> None:
    """Each job has one definition, of the same name."""
    assert [path.stem for path in DEFINITIONS] == [path.stem for path in JOBS]


@every_definition
def test_a_definition_starts_its_job(path: Path) -> None:
    """The task runs the script of this name, with arguments that it takes, on a cluster that the definition has."""
    job = json.loads(path.read_text())
    [task], [cluster] = job["tasks"], job["job_clusters"]
    given = parse(load(path.stem), *task["spark_python_task"]["parameters"])
    assert Path(task["spark_python_task"]["python_file"]).name == f"{path.stem}.py"
    assert given.checkpoint.startswith("/Volumes/")
    assert task["job_cluster_key"] == cluster["job_cluster_key"]
    assert task["libraries"] == [{"pypi": {"package": "pyspark-rocketmq"}}]
    assert job["description"].startswith("Not run on Databricks. ")


@every_definition
def test_no_job_runs_twice_at_a_time(path: Path) -> None:
    """A job has one run at a time, because its checkpoint is its own; it has a schedule, or runs on and has none."""
    job = json.loads(path.read_text())
    given = parse(load(path.stem), *job["tasks"][0]["spark_python_task"]["parameters"])
    assert job["max_concurrent_runs"] == 1
    assert ("continuous" in job) == bool(given.every)
    assert ("schedule" in job) != ("continuous" in job)


def test_no_two_definitions_share_a_place() -> None:
    """Tables and checkpoints are the places of one job each."""
    words = [json.loads(path.read_text())["tasks"][0]["spark_python_task"]["parameters"] for path in DEFINITIONS]
    places = [word for each in words for word in each if word.startswith("/Volumes/") and "secrets" not in word]
    assert len(places) == len(set(places))
