"""Run the notebooks, each from beginning to end in a fresh kernel, and keep in them what they show.

    python tools/execute_notebooks.py [NOTEBOOK ...]

Kept are results, printed text and plots; not what Spark's JVM says at its start, nor times of execution.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CELL_S = 120
"""How long one cell may run."""


def run_notebook(path: Path) -> NotebookNode:
    """The notebook with what it shows now; raises what a cell raises."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=CELL_S, coalesce_streams=True, resources=place)
        client.execute(env=_environment(folder))
    return _worth_keeping(notebook)


def _environment(folder: str) -> dict[str, str]:
    """Kernel and Spark leave everything in a folder that is gone afterwards, and find the project and its settings."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    settings = {"PYTHONPATH": path, "SPARK_CONF_DIR": str(ROOT / "conf")}
    return {**os.environ, **settings, "IPYTHONDIR": folder, "TMPDIR": folder}


def _worth_keeping(notebook: NotebookNode) -> NotebookNode:
    """Drop what differs from machine to machine."""
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main(paths: Sequence[Path]) -> None:
    """Run them all and write them anew."""
    for path in paths:
        print(f"==> {path.name}", flush=True)
        nbformat.write(run_notebook(path), path)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]] or NOTEBOOKS)
