"""Run the notebooks, each from beginning to end in a fresh kernel, and keep in them what they show.

    python tools/execute_notebooks.py [NOTEBOOK ...]

Kept are results, printed text and plots; not what Spark's JVM says at its start, nor times of execution.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CELL_S = 120
"""How long one cell may run."""


def run_notebook(path: Path) -> NotebookNode:
    """The notebook with what it shows now; raises what a cell raises."""
    notebook = nbformat.read(path, as_version=4)
    with _workplace() as folder:
        client = NotebookClient(
            notebook, timeout=CELL_S, coalesce_streams=True, resources={"metadata": {"path": folder}}
        )
        client.execute()
    return _worth_keeping(notebook)


@contextmanager
def _workplace() -> Iterator[str]:
    """A folder that is gone afterwards, for whatever kernel and Spark leave behind; both find project and settings."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = {
            "IPYTHONDIR": f"{folder}/ipython",
            "JUPYTER_RUNTIME_DIR": f"{folder}/jupyter",
            "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
            "SPARK_CONF_DIR": str(ROOT / "conf"),
            "TMPDIR": folder,
        }
        with patch.dict(os.environ, settings):
            yield folder


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
