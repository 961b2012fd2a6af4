"""The methods that can be verified. **A new method is one line here**, and the file of rules that it names.

Part of the verifier: it needs the standard library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._rules import Rules

METHODS = {
    "gap": "gap:GAP",
    "lpgnet": "perturbed:LPGNet",
    "edgerand": "perturbed:EdgeRand",
    "lapgraph": "perturbed:LapGraph",
    "progap": "progap:ProGAP",
    "label-messages": "labels:LabelMessages",
    "link-messages": "link_messages:LinkMessages",
    "piloted-messages": "piloted:PilotedMessages",
    "promised-messages": "promised:PromisedMessages",
    "mlp": "baselines:MLP",
    "linear": "baselines:Linear",
    "scattering": "scattering:Scattering",
    "sage": "baselines:SAGE",
    "reference": "baselines:SAGE",
    "graph-free": "baselines:GraphFree",
    "graph-split": "graph_split:GraphSplit",
    "dpgnn": "dpgnn:DPGNN",
    "dpar": "dpar:DPAR",
    "class-dp": "classlevel:ClassDP",
    "subclass-dp": "classlevel:SubclassDP",
    "cnn": "classlevel:CNN",
    "label-only": "local:LabelOnly",
    "hybrid": "local:Hybrid",
    "lpgnn": "local:LPGNN",
    "pgc-links": "local:LinkPrediction",
    "blink": "links:Blink",
    "pate": "pate:PATE",
    "set-calibration": "set_calibration:SetCalibration",
}
"""By its name in certificates: a file of this folder, and the class of its rules."""


def rules_of(method: str) -> Rules | None:
    """Return the rules of a method, or None if it is not known here.

    >>> rules_of("gap").inductive, rules_of("trust-me")
    (True, None)
    """
    if method not in METHODS:
        return None
    file, name = METHODS[method].split(":")
    rules: type[Rules] = getattr(import_module(f"._{file}", __package__), name)
    return rules()
