"""Names that a package offers without importing what defines them (PEP 562), so that light parts stay light."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(
    package: str, homes: Mapping[str, str], modules: tuple[str, ...] = ()
) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package.

    Args:
        package: its dotted name.
        homes: by public name, the module that defines it, relative to the package.
        modules: submodules that are reached as attributes too.

    >>> everything, get, _ = lazily("sfumato.privacy", {"Budget": "budget"}, ("units",))
    >>> everything, get("Budget").__name__
    (['Budget'], 'Budget')
    """

    def get(name: str) -> Any:
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    everything = sorted(homes)
    return everything, get, lambda: everything
