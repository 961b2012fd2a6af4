"""Fits of a study, one line of JSON each, so that a run that was stopped goes on; used by the scripts beside it."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any


def add_options(parser: argparse.ArgumentParser, results: str, first_seed: int) -> None:
    """The options that every study has; ``results`` is the file and ``first_seed`` the seed that it begins with."""
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=first_seed)
    parser.add_argument("--results", type=Path, default=Path(results))
    parser.add_argument("--only-print", action="store_true")
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))


def finished(
    options: argparse.Namespace, cells: Iterable[tuple[Any, ...]], fit: Callable[[Any, str], Any]
) -> dict[Any, Any]:
    """What earlier runs found by cell, and what ``fit`` finds of the other ``cells`` unless only printing is asked for."""
    path, done = options.results, {}
    if path.exists():
        done = {tuple(cell): found for *cell, found in map(json.loads, path.read_text("utf-8").splitlines())}
    if not options.only_print:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            for cell in cells:
                if cell not in done:
                    done[cell] = fit(cell, options.data_dir)
                    file.write(json.dumps([*cell, done[cell]]) + "\n")
                    file.flush()
    return done
