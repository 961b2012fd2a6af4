"""The pages of the Python reference: the public names of each package, whose docstrings the site shows."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType
from typing import Any

REFERENCE: dict[str, tuple[Any, ...]] = {
    "index": ("sfumato", "Methods, units of privacy, plans and what is fitted: `import sfumato as sf`."),
    "method": (
        "sfumato.method",
        "What every method has, such as `calibrate`.",
        ("contract", "predictions"),
    ),
    "graph": ("sfumato.graph", "Graphs, and what reads them: `sf.graph`."),
    "pyg": ("sfumato.pyg", "A transform for PyTorch Geometric, and released graphs: `sf.pyg`."),
    "local": ("sfumato.local", "Methods that learn from randomized reports: `sf.local`."),
    "randomizers": ("sfumato.randomizers", "How a device randomizes a value: `sf.randomizers`."),
    "noise": ("sfumato.noise", "Counts with Laplace noise: `sfumato.noise.counts`.", ("counts",)),
    "pate": ("sfumato.pate", "Teachers that vote, and what their answers cost: `sf.pate`."),
    "students": ("sfumato.students", "Models that learn from noisy answers: `sf.students`."),
    "collect": ("sfumato.collect", "Collections, from schema to closed file: `sf.collect`."),
    "report": ("sfumato.report", "Pages and figures: `sf.report`."),
    "privacy": (
        "sfumato.privacy",
        "Budgets, events, accounting and calibration, without graphs: `sf.privacy`.",
        ("accounting", "calibration", "events"),
    ),
    "verify": ("sfumato.verify", "The verifier, which needs nothing else of the package: `python -m sfumato.verify`."),
    "errors": ("sfumato.errors", "What is raised, and the warnings."),
}


def reference_page(package: str, lead: str, modules: tuple[str, ...] = ()) -> str:
    """The public names of a package, or of modules of it, from their docstrings; see mkdocs.yml."""
    public = [f"{package}.{name}" for name in getattr(import_module(package), "__all__", ())]
    public = [name for name in public if not isinstance(pkgutil.resolve_name(name), ModuleType)]
    names = [name for module in modules for name in _of_module(f"{package}.{module}")] or public or [package]
    return "\n".join([f"# {package}", "", lead, "", *(f"::: {name}\n" for name in names)])


def _of_module(module: str) -> list[str]:
    """A module, or the names that it takes from files of its own."""
    return [f"{module}.{name}" for name in getattr(import_module(module), "__all__", ())] or [module]
