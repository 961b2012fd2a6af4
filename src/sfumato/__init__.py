"""Sfumato: differentially private learning on graphs.

>>> import sfumato as sf
>>> sf.EdgeLevel(directed=False).describe()
'the presence of any one undirected edge'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from sfumato import graph, verify
    from sfumato.catalog import load
    from sfumato.central.auto import Auto
    from sfumato.central.baselines import MLP, SAGE
    from sfumato.central.gap import GAP
    from sfumato.central.labels import LabelMessages
    from sfumato.central.progap import ProGAP
    from sfumato.central.tuned import Tuned
    from sfumato.errors import SfumatoError
    from sfumato.method.fitted import Fitted
    from sfumato.method.plan import Plan
    from sfumato.privacy.budget import Budget
    from sfumato.privacy.units import EdgeLevel, LinkLevel, LocalLevel, NodeLevel, NoPrivacy, RecordLevel

_HOME = {
    "Auto": "central.auto",
    "Budget": "privacy.budget",
    "EdgeLevel": "privacy.units",
    "Fitted": "method.fitted",
    "GAP": "central.gap",
    "LabelMessages": "central.labels",
    "LinkLevel": "privacy.units",
    "LocalLevel": "privacy.units",
    "MLP": "central.baselines",
    "NoPrivacy": "privacy.units",
    "NodeLevel": "privacy.units",
    "Plan": "method.plan",
    "ProGAP": "central.progap",
    "RecordLevel": "privacy.units",
    "SAGE": "central.baselines",
    "SfumatoError": "errors",
    "Tuned": "central.tuned",
    "load": "catalog",
}
_MODULES = (
    "audit",
    "bounded",
    "catalog",
    "central",
    "errors",
    "evaluation",
    "experiments",
    "graph",
    "local",
    "method",
    "nn",
    "privacy",
    "report",
    "verify",
)

__all__ = [
    "GAP",
    "MLP",
    "SAGE",
    "Auto",
    "Budget",
    "EdgeLevel",
    "Fitted",
    "LabelMessages",
    "LinkLevel",
    "LocalLevel",
    "NoPrivacy",
    "NodeLevel",
    "Plan",
    "ProGAP",
    "RecordLevel",
    "SfumatoError",
    "Tuned",
    "graph",
    "load",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
