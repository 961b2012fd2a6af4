"""What the verifier knows of methods under unit local: what users are asked, what they send, what is learned from it.

Part of the verifier: it needs the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import ClassVar

from ._kinds import Planned, Reports
from ._reports import FEATURES, LABELS, QUESTIONS, SENT, feature_form, label_form, report_faults
from ._rules import Certificate, Rules, Tensors

_COLUMNS, _HEADS, _CODE = 256, 4, 16
_SEEN_WITH_LINKS = ["codes of nodes (if every link may be known)", "scores of all pairs (if every link may be known)"]
_OF_LINKS = [
    "Links are not protected: the server knows them all, and codes and scores were made to tell them. Show the release only to "
    "those who may know every link.",
    "No label is read, so none is randomized: there is no epsilon_y. Nothing is claimed about labels.",
]


class Local(Rules):
    """The common rules of methods under unit local: users report features, a label, or both, once."""

    settings: ClassVar = QUESTIONS
    audience: ClassVar = {"local": SENT}

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for an empty range, a unit that does not fit the budgets, and a delta that no mechanism needs.

        The unit must protect exactly the parts for which the settings name a budget.
        """
        unit, settings, delta = certificate["unit"], certificate["settings"], certificate["claim"]["delta"]
        if settings["high"] <= settings["low"]:
            yield f"certificate.json: settings.high: expected a number above low, got {settings['high']}"
        if unit["name"] == "none":
            return
        for field, setting in (("features", "epsilon_x"), ("labels", "epsilon_y")):
            if unit[field] != (settings[setting] is not None):
                yield f"certificate.json: unit.{field}: {unit[field]} does not fit settings.{setting}"
        noisy = any(release["event"]["type"] == "gaussian" for release in certificate["releases"])
        if delta != (settings["delta"] if noisy else 0):
            yield f"certificate.json: claim.delta: expected {'settings.delta' if noisy else 0}, got {delta}"

    def releases(self, certificate: Certificate) -> list[Planned]:
        """Return the reports of features, unless nothing is asked about them, and of labels, unless they are public."""
        settings, nodes = certificate["settings"], certificate["public_facts"]["num_nodes"]
        if certificate["unit"]["name"] == "none":
            return []
        check, found = partial(report_faults, certificate=certificate), []
        if settings["epsilon_x"]:
            found.append(Reports(FEATURES, [nodes, None], 0, check, partial(feature_form, certificate)))
        if settings["epsilon_y"] is not None:
            found.append(Reports(LABELS, [nodes], 0, check, lambda _: label_form(certificate)))
        return [*found]

    def caveats(self, certificate: Certificate) -> list[str]:
        """Return the caveat of a budget that is spent on every feature separately."""
        settings, count = certificate["settings"], certificate["public_facts"]["num_features"]
        if not (settings["per_feature"] and settings["epsilon_x"]):
            return []
        return [
            f"epsilon_x = {settings['epsilon_x']:g} is spent on each of the {count} features, as first published: a user "
            f"spends up to {count} times as much."
        ]


class LabelOnly(Local):
    """The rules of method label-only: labels are spread along links, and probabilities are kept."""

    settings: ClassVar = {**QUESTIONS, "form": "one of heat-kernel, propagation"}

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shape of the probabilities: a row for each node."""
        public = certificate["public_facts"]
        return {"probabilities": [public["num_nodes"], public["num_classes"]]}


class Hybrid(LabelOnly):
    """The rules of method hybrid, which weighs several experts."""

    settings: ClassVar = QUESTIONS

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the probabilities and the weight of every expert: three smoothings and, if features are there, two networks."""
        experts = 3 if certificate["settings"]["epsilon_x"] == 0 else 5
        return {**super().networks(certificate), "exponents": [experts]}


class LPGNN(Local):
    """The rules of method lpgnn, a graph network on reports."""

    settings: ClassVar = {
        **QUESTIONS,
        "steps_x": "index", "steps_y": "index", "backbone": "one of sage, gcn, gat, mlp",
        "loss": "one of drop, forward, cross-entropy", "select": "one of debiased, published, algorithm-4, last",
        "learning_rate": "positive up to 10", "weight_decay": "amount", "dropout": "fraction", "epochs": "count",
        "patience": "index",
        "hidden": "count", "activation": "one of selu, relu", "scale": "flag",
        "features_in": "one of reports, random, ones, degree",
    }  # fmt: skip

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the tensors of the network, of the epoch that was kept, and of the seed of made-up features."""
        settings, public = certificate["settings"], certificate["public_facts"]
        asked, width = settings["features_in"] == "reports", settings["hidden"]
        columns, classes = public["num_features"] or (0 if asked else _COLUMNS), public["num_classes"]
        layer = {"sage": _sage, "gat": _gat, "mlp": _own, "gcn": _linear}[settings["backbone"]]
        heads = _HEADS if settings["backbone"] == "gat" else 1
        layers = {
            **layer("network.first.", columns, width, heads),
            **layer("network.second.", heads * width, classes, 1),
        }
        return {**layers, "selection": [4], **({"feature_seed": [1]} if settings["features_in"] == "random" else {})}


class LinkPrediction(Local):
    """The rules of method pgc-links: users report features and no label; each gets a code, and pairs of codes a score."""

    settings: ClassVar = {
        **QUESTIONS, "learning_rate": "positive up to 10", "weight_decay": "amount", "max_epochs": "count",
    }  # fmt: skip
    audience: ClassVar = {"local": {**SENT, "anyone": ["reports", *_SEEN_WITH_LINKS]}}
    scores_pairs = True

    def faults(self, certificate: Certificate) -> Iterator[str]:
        """Yield a problem for a question or fact about labels, which are not read, and for no question about features."""
        yield from super().faults(certificate)
        settings, facts = certificate["settings"], certificate["public_facts"]
        if settings["epsilon_y"] is not None:
            yield "certificate.json: settings.epsilon_y: expected null, since method pgc-links asks for no label"
        if settings["epsilon_x"] == 0:
            yield "certificate.json: settings.epsilon_x: expected a budget or null, since links are told apart by features"
        for name in ("num_train", "num_classes"):
            if facts[name]:
                yield f"certificate.json: public_facts.{name}: expected 0, since method pgc-links reads no label"

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        """Return the shape of the codes: a row for each node."""
        return {"codes": [certificate["public_facts"]["num_nodes"], _CODE]}

    def caveats(self, certificate: Certificate) -> list[str]:
        """Return what is spent on every feature, and that nothing is claimed about links and labels."""
        return [*super().caveats(certificate), *([] if certificate["unit"]["name"] == "none" else _OF_LINKS)]


def _linear(at: str, columns: int, width: int, heads: int) -> Tensors:
    return {f"{at}weight": [heads * width, columns], f"{at}bias": [heads * width]}


def _own(at: str, columns: int, width: int, heads: int) -> Tensors:
    return _linear(f"{at}own.", columns, width, heads)


def _gat(at: str, columns: int, width: int, heads: int) -> Tensors:
    ends = {f"{at}to_{end}": [heads, width] for end in ("source", "target")}
    return {**_linear(at, columns, width, heads), **ends}


def _sage(at: str, columns: int, width: int, heads: int) -> Tensors:
    return {f"{at}own.weight": [width, columns], **_linear(f"{at}neighbor.", columns, width, heads)}
