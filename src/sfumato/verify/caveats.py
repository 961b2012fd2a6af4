"""What is implausible about a claim or its public facts, derived anew: a certificate cannot leave it out, nor the verdict.

Part of the verifier: it needs the standard library and the other ``_verify_*.py``. Thresholds and sentences are copies of
those in ``privacy/promises.py``, which gives the reasons.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .epsilon import gaussian_log_delta

_MOST_DELTA, _MOST_EPSILON = 1e-3, 10.0
_FEW_NODES, _MOST_CLASSES, _LEAST_PER_CLASS, _LEAST_DEGREE = 50, 100, 10, 0.5
_NO_LINKS = ("mlp",)
_OF_THE_CLAIM = ("delta-per-record", "delta-large", "epsilon-large")
_PUBLIC = {"num_arcs": ("none", "local"), "untrained_classes": ("none", "edge", "link")}
Found = Iterator[tuple[str, str]]


def implausible(certificate: dict[str, Any]) -> list[tuple[str, str]]:
    """Codes and sentences that claim, unit, public facts and settings imply.

    >>> facts = {"num_nodes": 60, "num_train": 45, "num_classes": 0, "mean_degree": None}
    >>> claim = {"epsilon": 11.0, "delta": 1e-6}
    >>> made = {"method": "gap", "claim": claim, "public_facts": facts, "settings": {}, "composition": {"builds_on": []}}
    >>> [code for code, _ in implausible({**made, "unit": {"name": "edge", "relation": "add-remove"}})]
    ['epsilon-large']
    """
    facts, settings = certificate["public_facts"], certificate["settings"]
    if certificate["method"] == "pate":
        teachers = settings["num_teachers"]
        return [*_claim(certificate, teachers, "teachers"), *_votes(teachers, settings["mechanism"])]
    found = [*_claim(certificate, facts["num_nodes"], "nodes"), *_sizes(certificate["method"], facts)]
    if not certificate["composition"]["builds_on"] and facts["num_classes"]:
        found += [*_classes(facts), *_hidden(certificate, facts, settings.get("epsilon_y"))]
    return found


def stated(certificate: dict[str, Any]) -> list[str]:
    """The sentences that its caveats must hold: all, or none beyond those of the claim, as in runs before they were written."""
    found, held = implausible(certificate), certificate["caveats"]
    old = not any(text in held for code, text in found if code not in _OF_THE_CLAIM)
    return [text for code, text in found if code in _OF_THE_CLAIM or not old]


def fact_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Counts that are no public facts under the unit."""
    unit, facts = certificate["unit"], certificate["public_facts"]
    for name, units in _PUBLIC.items():
        labels = name == "untrained_classes" and not unit.get("labels", True)
        if name in facts and unit["name"] not in units and not labels:
            yield f"certificate.json: public_facts.{name}: is protected under unit {unit['name']}"


def _claim(certificate: dict[str, Any], records: int, noun: str) -> Found:
    epsilon, delta = certificate["claim"]["epsilon"], certificate["claim"]["delta"]
    advice = "Choose delta far below 1 / (number of records), such as 1e-7."
    if delta and delta >= 1 / records:
        text = f"delta = {delta:g} is not below 1 / {records} (the number of {noun}): telling one record in full would keep "
        yield "delta-per-record", text + f"the promise. {advice}"
    if delta and delta > _MOST_DELTA:
        text = (
            f"delta = {delta:g} exceeds {_MOST_DELTA:g}: it is the probability with which nothing is promised. {advice}"
        )
        yield "delta-large", text
    if epsilon and epsilon > _MOST_EPSILON:
        text = f"The claimed epsilon exceeds {_MOST_EPSILON:g}: a conclusion about one record may become e^epsilon times as "
        yield "epsilon-large", text + "likely. Choose a smaller epsilon; 1 is a common choice."


def _votes(teachers: int, mechanism: dict[str, Any]) -> Found:
    deviation = mechanism["scale"] * math.sqrt(2) if "scale" in mechanism else mechanism["noise_stddev"]
    if teachers < 2 * deviation:
        text = (
            f"{teachers} teachers are fewer than two standard deviations of the noise on a count of votes: answers are "
        )
        remedy = "Take more teachers, fewer queries or a larger epsilon."
        yield "noisy-votes", text + f"close to random even where all agree. {remedy}"


def _sizes(method: str, facts: dict[str, Any]) -> Found:
    nodes, arcs, promised = facts["num_nodes"], facts.get("num_arcs"), facts["mean_degree"]
    if nodes < _FEW_NODES:
        text = f"The graph has {nodes} nodes, fewer than {_FEW_NODES}: too few to learn from and to measure an accuracy on. "
        yield "few-nodes", text + "Collect more."
    degree = promised if arcs is None else arcs / nodes
    if method not in _NO_LINKS and degree is not None and degree < _LEAST_DEGREE:
        text = (
            f"A node has {degree:.3g} arcs on average{' as promised' * (arcs is None)}: most nodes have no neighbor to "
        )
        yield "few-arcs", text + "learn from. Check the edge table, its columns and its direction, or take mlp."


def _classes(facts: dict[str, Any]) -> Found:
    classes, train = facts["num_classes"], facts["num_train"]
    if classes > _MOST_CLASSES or classes * _LEAST_PER_CLASS > train:
        text = f"The label has {classes} values for {train} training nodes: is this column an id or a number? Name a column "
        yield "many-classes", text + "of few classes, or merge values."
    if facts.get("untrained_classes"):
        text = f"{facts['untrained_classes']} of {classes} classes have no training node, so nothing is learned about them. "
        yield "untrained-class", text + "Check roles and labels, or drop these classes."


def _hidden(certificate: dict[str, Any], facts: dict[str, Any], asked: Any) -> Found:
    unit, epsilon, delta = certificate["unit"], certificate["claim"]["epsilon"], certificate["claim"]["delta"]
    classes, train = facts["num_classes"], facts["num_train"]
    each = train / classes
    if unit["name"] == "local":
        known = unit["labels"] and type(asked) in (int, float) and asked > 0
        hidden = known and _drowns(asked, each, classes)
    else:
        degree = (facts["mean_degree"] or 0.0) * train / facts["num_nodes"]
        alone = each / (2 if unit["relation"] == "replace" else 1)
        evidence = degree * math.sqrt(each) if unit["name"] == "edge" else alone
        hidden = bool(epsilon and delta and evidence) and gaussian_log_delta(1 / evidence, epsilon) > math.log(delta)
    if hidden:
        text = (
            f"With {each:.3g} training nodes a class, what a class adds is below one standard deviation of the noise: "
        )
        remedy = "Merge classes, raise epsilon, or train on more nodes."
        yield "hidden-classes", text + f"{classes} classes can hardly be told apart. {remedy}"


def _drowns(epsilon: float, each: float, classes: int) -> bool:
    grown = math.exp(min(epsilon, 100.0))
    return each * (grown - 1) ** 2 < classes * min(4 * grown, grown + classes - 2)
