"""What stands beside a method on the command line: floor, ceiling and controls, and how tables name them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from sfumato.cli.local import OF_LINKS
from sfumato.privacy.units import NoPrivacy, Unit

if TYPE_CHECKING:
    from sfumato.method.plan import Plan
    from sfumato.privacy.budget import Budget

BESIDE = {
    "floor": "floor: graph-free, same budget",
    "label_control": "control: one hop of labels, same budget",
    "ceiling": "ceiling: GraphSAGE, no privacy",
}
BESIDE_LOCAL = {
    "floor": "floor: features that tell nothing, same labels",
    "label_control": "control: labels alone, same epsilon_y",
    "propagation": "control: the same by propagation",
    "no_features": "control: the default without features",
    "mlp": "control: no graph, same questions",
    "ceiling": "ceiling: GraphSAGE, no privacy",
}
BESIDE_LINKS = {"floor": "floor: MLP, no links", "ceiling": "ceiling: GCN, links in the clear"}
_NO_INFORMATION: dict[str, Any] = {
    "features_in": "random", "scale": True, "select": "debiased", "loss": "forward", "steps_x": 8,
}  # fmt: skip
_GRAPH_FREE: dict[str, Any] = {"backbone": "mlp", "steps_x": 0, "steps_y": 0, "loss": "forward"}
_CLEAR: dict[str, Any] = {
    "epsilon_x": None, "epsilon_y": None, "label_mechanism": "randomized-response", "steps_x": 0, "steps_y": 0,
    "loss": "cross-entropy",
}  # fmt: skip


def titles(plan: Plan) -> dict[str, str]:
    """How tables name each control of a plan, the ceiling last."""
    if not is_local(plan):
        return BESIDE
    return BESIDE_LINKS if plan.unit.trust == "link" else BESIDE_LOCAL


def is_local(plan: Plan) -> bool:
    """Whether users randomize their own values or links (or would, were none of them read in the clear)."""
    from sfumato.local.method import AskingMethod

    return isinstance(plan.method, AskingMethod)


def candidates(plan: Plan) -> list[tuple[str, Any, Unit, Budget | None]]:
    """The controls of a plan: name, method, unit and budget."""
    if is_local(plan):
        return [(*control, None) for control in _of_local(plan)]
    from sfumato.central.baselines import MLP, SAGE
    from sfumato.central.labels import LabelMessages

    return [
        ("floor", MLP(), plan.unit, plan.budget),
        ("label_control", LabelMessages(num_hops=1), plan.unit, plan.budget),
        ("ceiling", SAGE(), NoPrivacy(), None),
    ]


def _of_local(plan: Plan) -> list[tuple[str, Any, Unit]]:
    """The controls of a local plan: name, method and unit; those that a method has no form of are left out."""
    from sfumato.central.baselines import SAGE
    from sfumato.local.collection import Questions
    from sfumato.local.label_only import LabelOnly
    from sfumato.local.lpgnn import LPGNN

    method: Any = plan.method
    if method.name in OF_LINKS:
        return _own(floor=LPGNN(**_CLEAR, backbone="mlp"), ceiling=LPGNN(**_CLEAR, backbone="gcn"))
    labels = {"epsilon_y": method.epsilon_y, "label_mechanism": method.label_mechanism}
    alone = LabelOnly(epsilon_x=0.0 if method.epsilon_y is not None else None, **labels)
    found = _own(label_control=alone, propagation=replace(alone, form="propagation"))
    found.append(("ceiling", SAGE(), NoPrivacy()))
    asked = {field.name: getattr(method, field.name) for field in fields(Questions)}
    if method.name == "hybrid" and method.epsilon_x != 0:
        found += _own(
            floor=LPGNN(**labels, **_NO_INFORMATION),
            no_features=replace(method, epsilon_x=0.0),
            mlp=LPGNN(**asked, **_GRAPH_FREE),
        )
    if method.name == "lpgnn" and method.features_in == "reports":
        found += _own(floor=replace(method, features_in="random"), mlp=replace(method, **_GRAPH_FREE))
    return [control for control in found if control[1] != method]


def _own(**controls: Any) -> list[tuple[str, Any, Unit]]:
    return [(name, control, control.unit) for name, control in controls.items()]
