"""Write docs/examples/notebook.ipynb from the page docs/examples/notebook.md: the page is the source, and runs in the tests.

    python tools/notebook.py

Each block in Python is a cell, and the block of text after it is its output.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "examples" / "notebook.md"
_PART = re.compile(r"^```(python|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def notebook(page: str) -> str:
    """The page as a notebook of format 4.5."""
    cells: list[dict[str, Any]] = []
    end = 0
    for part in _PART.finditer(page):
        _add_words(cells, page[end : part.start()])
        end = part.end()
        if part[1] == "text":
            cells[-1]["outputs"] = [{"name": "stdout", "output_type": "stream", "text": _lines(part[2])}]
        else:
            cells.append(_cell(cells, "code", part[2]) | {"execution_count": None, "outputs": []})
    _add_words(cells, page[end:])
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _add_words(cells: list[dict[str, Any]], words: str) -> None:
    if words.strip():
        cells.append(_cell(cells, "markdown", words))


def _cell(before: list[dict[str, Any]], kind: str, text: str) -> dict[str, Any]:
    return {"cell_type": kind, "id": f"cell-{len(before)}", "metadata": {}, "source": _lines(text)}


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)


if __name__ == "__main__":
    PAGE.with_suffix(".ipynb").write_text(notebook(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
