"""What is implausible about a claim or its public facts. It is derived anew, so neither certificate nor verdict can omit it.

Copies of the thresholds and sentences in ``privacy/promises.py``, which gives the reasons; ``Rules.doubts`` says which are
asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .events._gaussian import gaussian_log_delta

_MOST_DELTA, _MOST_EPSILON = 1e-3, 10.0
_FEW_NODES, _MOST_CLASSES, _LEAST_PER_CLASS, _LEAST_DEGREE = 50, 100, 10, 0.5
_ALWAYS = ("delta-per-record", "delta-large", "epsilon-large", "given-roles")
ROLES = "roles"
"""The fact, among those assumed public, that roles were given."""
Found = Iterator[tuple[str, str]]


def stated(doubts: Found, held: list[str], *, may_be_old: bool = True) -> list[str]:
    """Return the sentences that a certificate must hold: all of them, or those about the claim and given roles alone.

    >>> stated(iter([("epsilon-large", "Large."), ("few-nodes", "Few.")]), ["Large."])
    ['Large.']
    """
    found = list(doubts)
    old = may_be_old and not any(text in held for code, text in found if code not in _ALWAYS)
    return [text for code, text in found if code in _ALWAYS or not old]


def of_the_graph(certificate: dict[str, Any], reads_links: bool) -> Found:
    """Yield what the numbers of nodes, arcs and classes make implausible.

    >>> facts = {"num_nodes": 60, "num_train": 45, "num_classes": 0, "mean_degree": 0.25}
    >>> made = {"public_facts": facts, "settings": {}, "composition": {"builds_on": []}}
    >>> [code for code, _ in of_the_graph(made, reads_links=True)]
    ['few-arcs']
    """
    facts, learns = certificate["public_facts"], not certificate["composition"]["builds_on"]
    yield from _sizes(facts, reads_links, learns)
    if learns and facts["num_classes"] and not facts.get("target"):
        yield from _classes(facts)
        yield from _hidden(certificate, facts, certificate["settings"].get("epsilon_y"))
    if ROLES in certificate.get("assumed_public", ()):
        text = "The roles were given, not drawn here over ids, and are assumed public. If labels decided them, as where every "
        text += "class has 20 training nodes, then roles and the other labels tell a label, whatever is claimed. "
        yield "given-roles", text + "Check how they were made, or draw them: --split 75/10/15, with_split()."


def of_the_claim(certificate: dict[str, Any], records: int, noun: str) -> Found:
    """Yield what makes the claim of a ``certificate`` weak: a large epsilon, or a delta that is too large.

    >>> [code for code, _ in of_the_claim({"claim": {"epsilon": 11.0, "delta": 1e-6}}, 60, "nodes")]
    ['epsilon-large']
    """
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


def _sizes(facts: dict[str, Any], reads_links: bool, learns: bool) -> Found:
    nodes, arcs, promised = facts["num_nodes"], facts.get("num_arcs"), facts["mean_degree"]
    if learns and nodes < _FEW_NODES:
        text = f"The graph has {nodes} nodes, fewer than {_FEW_NODES}: too few to learn from and to measure an accuracy on. "
        yield "few-nodes", text + "Collect more."
    degree = promised if arcs is None else arcs / nodes
    if reads_links and degree is not None and degree < _LEAST_DEGREE:
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
