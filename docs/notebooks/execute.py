"""Runs the notebooks of this folder as they are and stores their output: `make notebooks`."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

for path in [Path(name) for name in sys.argv[1:]] or sorted(Path(__file__).parent.glob("*.ipynb")):
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(notebook, timeout=3600, kernel_name="python3", record_timing=False).execute()
    notebook.metadata.pop("language_info", None)  # the version of the machine that ran it
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":  # progress bars
                cell["outputs"] = [each for each in cell["outputs"] if each is not output]
    nbformat.write(notebook, path)
