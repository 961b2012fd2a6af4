"""Optional packages are installed by extras; attributes of our own packages are imported when they are asked for (PEP 562)."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from sfumato.errors import MissingDependencyError

_OF_EXTRA = {
    "train": "torch numba sklearn threadpoolctl duckdb pyarrow safetensors",
    "pyg": "torch_geometric",
    "images": "PIL",
    "networkx": "networkx",
    "report": "matplotlib jinja2 markupsafe",
    "collect": "fastapi starlette uvicorn httptools httpx sqlalchemy prometheus_client",
    "postgres": "psycopg",
    "distributed": "ray",
    "text": "transformers tokenizers wordllama",
}
EXTRAS = {name: extra for extra, names in _OF_EXTRA.items() for name in names.split()}
"""Import name of each optional package, and the extra of this one that brings it; ``train`` for all that ``light`` brings."""
ALONE = {"onnx": "onnx", "pandas": "pandas", "sentence_transformers": "sentence-transformers"}
"""Import name of each optional package that no extra brings, and the name to install it by."""
LIGHT = ("numba", "safetensors")
"""What every fit needs, from its first step to the saved run. Label messages and graph-free models at edge level need no more."""
TRAIN = ("torch", *LIGHT)
"""What every method and every control can be fitted with."""


def not_installed(*packages: str) -> MissingDependencyError:
    """Build the error for optional packages that are absent; it names the extras that install them, or the packages."""
    what = (
        f"the package {packages[0]}, which is"
        if len(packages) == 1
        else f"the packages {', '.join(packages)}, which are"
    )
    extras = ",".join(dict.fromkeys(EXTRAS[name] for name in packages if name in EXTRAS))
    wanted = [f"'sfumato[{extras}]'"] * bool(extras) + [ALONE[name] for name in packages if name in ALONE]
    them = "it" if len(packages) == 1 else "them"
    return MissingDependencyError(
        f"This needs {what} not installed. Install {them}: pip install {' '.join(wanted)}", name=packages[0]
    )


def explained(error: ModuleNotFoundError) -> ModuleNotFoundError:
    """Return the same error with its remedy, if it is about an optional package."""
    package = (error.name or "").split(".")[0]
    known = (package in EXTRAS or package in ALONE) and not isinstance(error, MissingDependencyError)
    return not_installed(package) if known else error


def require(module: str) -> ModuleType:
    """Import an optional package, or say which extra installs it, or one that fits what else is installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise explained(error) from error
    except ImportError as error:
        raise _unfit(module.split(".")[0], error) from error


def _unfit(package: str, error: ImportError) -> ImportError:
    """The error of a package that is there but does not fit the versions of others, with its remedy."""
    if package not in EXTRAS and package not in ALONE:
        return error
    wanted = f"'sfumato[{EXTRAS[package]}]'" if package in EXTRAS else ALONE[package]
    return MissingDependencyError(
        f"This needs the package {package}, which is installed but does not work with the other packages here "
        f"({' '.join(str(error).split())[:200]}). Install versions that fit: pip install --upgrade {wanted}",
        name=package,
    )


def check_installed(*packages: str) -> None:
    """Refuse at once what would need an absent package later, without importing any package."""
    absent = [name for name in packages if not _found(name)]
    if absent:
        raise not_installed(*absent)


def _found(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def homes_in(file: str | Path) -> dict[str, str]:
    """Return the module of each name that an ``__init__.py`` imports for type checkers, as ``X as X``: no other place has it."""
    found = re.findall(
        r"^    from ([\w.]+\.\w+) import (\w+) as \2$", Path(file).read_text(encoding="utf-8"), re.MULTILINE
    )
    return {name: home for home, name in found}


def lazily(
    package: str, homes: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Build ``__getattr__`` and ``__dir__`` of a package, which import modules and names on first use.

    The built ``__getattr__`` raises AttributeError for a name that does not exist, and MissingDependencyError for one that
    needs an absent package.

    >>> find, _ = lazily("sfumato", {"Budget": "sfumato.privacy.budget"})
    >>> find("Budget").__name__, find("privacy").__name__
    ('Budget', 'sfumato.privacy')
    """
    homes = homes or {}

    def find(name: str) -> Any:
        module = homes.get(name, f"{package}.{name}")
        if name.startswith("_") or (name not in homes and find_spec(module) is None):
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            found = import_module(module)
        except ModuleNotFoundError as error:
            raise explained(error) from error
        return getattr(found, name) if name in homes else found

    def names() -> list[str]:
        own = sys.modules[package]
        modules = {module.name for module in iter_modules(own.__path__) if not module.name.startswith("_")}
        return sorted({*homes, *modules, *(name for name in vars(own) if name.startswith("__"))})

    return find, names
