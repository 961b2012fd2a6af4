"""Pages and pictures of recorded experiments, made of docs/results/experiments.jsonl when the documentation is built."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

from sfumato.errors import SfumatoWarning
from sfumato.experiments._index import Recorded, of_experiment, read_page
from sfumato.experiments._measured import Measured, read_recorded
from sfumato.experiments._spec import SPECS, Spec
from sfumato.report._experiment import markdown_files

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
DATA = RESULTS / "experiments.jsonl"
IN_TREE = ("price-of-privacy",)
"""Experiments whose page and picture stand in the repository, too: its first pages show them."""


def experiments() -> Iterator[tuple[Spec, Measured]]:
    """Each recorded experiment: its specification, and what was measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SfumatoWarning)
        for name, objects in read_recorded(DATA).items():
            spec = Spec.read(_file(name))
            yield spec, Measured.from_jsonl(spec, objects)


def made(spec: Spec, measured: Measured) -> dict[str, str]:
    """The page of an experiment and its pictures, by file name."""
    page, figures = markdown_files(spec, measured)
    file = _file(spec.name).relative_to(ROOT)
    return {f"{spec.name}.md": page.replace(f" run {spec.name}.toml ", f" run {file} "), **figures}


def recorded() -> dict[str, Recorded]:
    """What is recorded, by the name of its page: of experiments, and on pages of scripts."""
    pages = {
        path.stem: read_page(path.read_text()) for path in RESULTS.glob("*.md") if path.stem not in ("index", *IN_TREE)
    }
    pages |= {spec.name: of_experiment(spec, measured) for spec, measured in experiments()}
    return dict(sorted(pages.items()))


def _file(name: str) -> Path:
    path = SPECS / f"{name}.toml"
    return path if path.exists() else ROOT / "benchmarks" / f"{name}.toml"
