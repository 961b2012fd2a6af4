"""Results of the local methods stand beside these controls, these audiences may see them, and their certificates note this."""

from __future__ import annotations

from typing import Any

from sfumato.method.card import CEILING, Audience, Control

REPORTED = Audience(("reports", "weights"))
"""Anyone may see everything: nothing but reports ever leaves a device."""
CHOSEN = (
    "Constants of label smoothing (priors of its settings and weights) were set with the test accuracy of planetoid/cora, "
    "citeseer and pubmed, lastfm_asia, musae/facebook, wiki_chameleon and twitch_ENGB, npz/cora_ml and facebook100/Simmons81 in "
    "view, on splits of seeds below 200. So on these data sets settings were not chosen without looking: there this "
    "certificate is a demonstration."
)
"""What certificates of label smoothing note."""
PUBLISHED = (
    "The hops and hyper-parameters of presets lpgnn-2021 and pgc-2020 were chosen by their authors on planetoid/cora, citeseer "
    "and pubmed, musae/facebook and twitch_ENGB, lastfm_asia, elliptic and flickr. So with these presets settings were not "
    "chosen without looking at these data sets: there this certificate is a demonstration."
)
"""What certificates of networks on reports note, since a preset leaves no other trace in the settings."""
GRAPH_FREE: dict[str, Any] = {"backbone": "mlp", "steps_x": 0, "steps_y": 0, "loss": "forward"}
_LABELS = ("epsilon_y", "label_mechanism")
_FLOOR = "floor: features that tell nothing, same labels"
_MLP = "control: no graph, same questions"


def _labels_alone(name: str, title: str, **settings: Any) -> tuple[Control, Control]:
    """A run on the label reports; where these are read in the clear nothing is asked, so that nothing is private."""
    clear = {"epsilon_x": None, **settings}
    return (
        Control(name, title, "label-only", settings, keeps=_LABELS, unless={"epsilon_y": None}),
        Control(name, title, "label-only", clear, keeps=_LABELS, only={"epsilon_y": None}),
    )


_LABELS_ALONE = (
    *_labels_alone("label_control", "control: labels alone, same epsilon_y"),
    *_labels_alone("propagation", "control: the same by propagation", form="propagation"),
)
_CLEAR: dict[str, Any] = {
    "epsilon_x": None, "epsilon_y": None, "label_mechanism": "randomized-response", "steps_x": 0, "steps_y": 0,
    "loss": "cross-entropy",
}  # fmt: skip
_NO_INFORMATION: dict[str, Any] = {
    "features_in": "random", "scale": True, "select": "debiased", "loss": "forward", "steps_x": 8,
}  # fmt: skip
BESIDE_LABELS = (*_LABELS_ALONE, CEILING)
"""Beside a method that asks for labels alone."""
BESIDE_NETWORK = (
    Control("floor", _FLOOR, settings={"features_in": "random"}, only={"features_in": "reports"}),
    *_LABELS_ALONE,
    Control("mlp", _MLP, settings=GRAPH_FREE, only={"features_in": "reports"}),
    CEILING,
)
"""Beside a network on reports."""
BESIDE_LINKS = (
    Control("floor", "floor: MLP, no links", "lpgnn", {**_CLEAR, "backbone": "mlp"}),
    Control("ceiling", "ceiling: GCN, links in the clear", "lpgnn", {**_CLEAR, "backbone": "gcn"}),
)
"""Beside a method of private links."""


def beside_hybrid(questions: tuple[str, ...]) -> tuple[Control, ...]:
    """List the controls of a method that need not ask for features; ``questions`` are the settings that say what is asked."""
    asks = {"epsilon_x": 0}
    return (
        Control("floor", _FLOOR, "lpgnn", _NO_INFORMATION, keeps=_LABELS, unless=asks),
        *_LABELS_ALONE,
        Control("no_features", "control: the default without features", settings={"epsilon_x": 0.0}, unless=asks),
        Control("mlp", _MLP, "lpgnn", GRAPH_FREE, keeps=questions, unless=asks),
        CEILING,
    )
