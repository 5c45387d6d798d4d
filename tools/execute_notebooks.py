"""Run each notebook from beginning to end in a new kernel, and save it with its new outputs.

    python tools/execute_notebooks.py [NOTEBOOK ...]

Results, printed text and plots are saved. Messages of Spark's JVM at its start and times of execution are not.
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
"""The timeout of one cell, in seconds."""


def run_notebook(path: Path) -> NotebookNode:
    """Run a notebook; return it with its new outputs, or raise the error of the first cell that fails."""
    notebook: NotebookNode = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=CELL_S, coalesce_streams=True, resources=place)
        client.execute(env=_environment(folder))
    return _worth_keeping(notebook)


def _environment(folder: str) -> dict[str, str]:
    """Return an environment in which kernel and Spark import the project and write only into `folder`."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    settings = {"PYTHONPATH": path, "SPARK_CONF_DIR": str(ROOT / "conf")}
    return {**os.environ, **settings, "IPYTHONDIR": folder, "TMPDIR": folder}


def _worth_keeping(notebook: NotebookNode) -> NotebookNode:
    """Remove the outputs and metadata that differ from machine to machine; return the notebook."""
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    return notebook


def main(paths: Sequence[Path]) -> None:
    """Run each notebook and write it back to its file with the new outputs."""
    for path in paths:
        print(f"==> {path.name}", flush=True)
        nbformat.write(run_notebook(path), path)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]] or NOTEBOOKS)
