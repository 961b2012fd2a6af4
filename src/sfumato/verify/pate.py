r"""What the verifier knows of PATE: what its settings imply, and what its answers and networks must look like.

Part of the verifier: it needs NumPy and the standard library. Settings and public facts have the forms ``pate_settings`` and
``pate_facts`` of the JSON Schema here; everything else a certificate says follows from them (:func:`implied`).

One vote moves between neighbors, so the counts of a query move by :math:`\sqrt 2` in L2 and 2 in L1, and their maximum by 1:
noise multipliers are :math:`\sigma_2 / \sqrt 2`, :math:`b / 2` and :math:`\sigma_1`. Every query is charged, refused or not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

METHOD = "pate"
REFUSED = -1
_MOST_PUBLIC = 10**7
_EDGES = 12 * 7 * 7  # numbers that describe an image: directions by cells
_THRESHOLDS = -(2**15), 2**40  # votes: what the library takes; every query is charged, whatever the threshold is
# fmt: off
WORDS: dict[str, Any] = {
    "unit": {"name": "record", "relation": "replace"},
    "protects": "any one record",
    "assumed_public": [],
    "who_may_see": {"anyone": ["student", "queries and answers"], "the node itself": [],
                    "never": ["teachers", "votes before noise"]},
    "caveats": [
        "Epsilon is what the caps on queries and answers cost, whatever the votes are. An epsilon that depends on votes is not "
        "in the claim, and must not be told without noise of its own.",
        "A record that is added or removed is protected alike, if no other changes its id (of named images: the row in the "
        "published file, which a removed one leaves vacant). Who has records under several ids is protected less: epsilon adds "
        "up."],
    "composition": {"covers": "This run alone: other releases about the same data add up.", "builds_on": []}}
# fmt: on


def implied(certificate: dict[str, Any]) -> dict[str, Any]:
    """Fields of a certificate of PATE that follow from its settings and public facts: their only possible values."""
    return {**WORDS, "releases": _releases(certificate["settings"], certificate["public_facts"]["num_classes"])}


def _releases(settings: dict[str, Any], num_classes: int) -> list[dict[str, Any]]:
    mechanism, queries = settings["mechanism"], settings["num_queries"]
    if mechanism["name"] == "lnmax":
        events = {"answers": ("laplace", mechanism["scale"] / 2, queries)}
    else:
        events = {"answers": ("gaussian", mechanism["noise_stddev"] / math.sqrt(2), settings["max_answers"])}
    if mechanism["name"] == "confident-gnmax":
        events = {"threshold": ("gaussian", float(mechanism["threshold_stddev"]), queries), **events}
    return [
        {
            "name": name,
            "event": {"type": kind, "noise_multiplier": noise, "count": count},
            "shape": [queries],
            "affected_coordinates": num_classes if name == "answers" else 1,
            "visible_to": "anyone",
        }
        for name, (kind, noise, count) in events.items()
    ]


def settings_faults(certificate: dict[str, Any]) -> Iterator[str]:
    """Caps that exceed what they are of or are not the mechanism's, a threshold of no run, networks without a first layer."""
    settings, where = certificate["settings"], "certificate.json: settings."
    queries, answers, pool = settings["num_queries"], settings["max_answers"], certificate["public_facts"]["num_public"]
    if queries > pool:
        yield f"{where}num_queries: {queries} exceeds public_facts.num_public, which is {pool}"
    if answers > queries:
        yield f"{where}max_answers: {answers} exceeds num_queries, which is {queries}"
    name, student = settings["mechanism"]["name"], settings["student"]
    if name != "confident-gnmax" and answers != queries:
        yield f"{where}max_answers: expected {queries}, since {name} answers every query, got {answers}"
    threshold = settings["mechanism"].get("threshold", 0)
    if not _THRESHOLDS[0] <= threshold <= _THRESHOLDS[1]:
        yield f"{where}mechanism.threshold: expected votes between -2**15 and 2**40, got {threshold}"
    if student["name"] == "consistency":
        return
    if len(student["widths"]) < (least := 3 if student["network"] == "cnn" else 1):
        yield f"{where}student.widths: expected at least {least} numbers, got {len(student['widths'])}"


def released_shapes(certificate: dict[str, Any]) -> dict[str, list[int]]:
    """What is released beside the student: which rows were asked about, and an answer or a refusal for each.

    >>> released_shapes({"settings": {"num_queries": 3}})
    {'queries': [3], 'answers': [3]}
    """
    return {name: [certificate["settings"]["num_queries"]] for name in ("queries", "answers")}


def network_shapes(certificate: dict[str, Any]) -> dict[str, list[int]]:
    """Every tensor of the student's networks."""
    student, public = certificate["settings"]["student"], certificate["public_facts"]
    classes = public["num_classes"]
    if student["name"] == "consistency":
        layers = {"network.0": [student["width"], _EDGES], "network.2": [classes, student["width"]]}
    else:
        one = _discriminator(student, public)
        number = 1 if student["name"] == "gan" else 2
        layers = {f"discriminator/{i}.{name}": shape for i in range(number) for name, shape in one.items()}
    weights = {f"{name}.weight": shape for name, shape in layers.items()}
    return weights | {f"{name}.bias": shape[:1] for name, shape in layers.items()}


def _discriminator(student: dict[str, Any], public: dict[str, Any]) -> dict[str, list[int]]:
    """Two convolutions (network cnn), linear layers, and scores of the classes."""
    inputs, height, width = public["image_shape"]
    widths, columns = student["widths"], _EDGES if student["network"] == "edges" else inputs * height * width
    layers = {}
    if student["network"] == "cnn":
        first, second, *widths = widths
        layers = {"convolutions.0": [first, inputs, 5, 5], "convolutions.1": [second, first, 3, 3]}
        columns = second * math.prod((side - 5) // 2 // 2 + 1 for side in (height, width))
    for i, (wide, narrow) in enumerate(pairwise([columns, *widths])):
        layers[f"layers.{i}"] = [narrow, wide]
    return {**layers, "head": [public["num_classes"], widths[-1]]}


def _chosen(pool: int, seed: int) -> list[int]:
    """Rows of the pool in the order in which a seed asks about them."""
    return sorted(range(pool), key=lambda row: hashlib.sha256(f"query {seed} {row}".encode()).digest())


def answer_faults(queries: Any, answers: Any, certificate: dict[str, Any]) -> Iterator[str]:
    """Queries that the seed does not choose from the pool; answers that are no classes, exceed the cap, or are missing.

    Without any answer there was nothing to learn from: such weights come from elsewhere.

    >>> import numpy as np
    >>> settings = {"max_answers": 1, "mechanism": {"name": "confident-gnmax"}, "seed": 0}
    >>> certificate = {"settings": settings, "public_facts": {"num_public": 9000, "num_classes": 2}}
    >>> list(answer_faults(np.array([8056, 1050]), np.array([1, 0]), certificate))
    ['answers: holds 2 answers, which exceeds settings.max_answers, 1']
    """
    settings, public = certificate["settings"], certificate["public_facts"]
    if public["num_public"] > _MOST_PUBLIC:
        yield f"public_facts.num_public: {public['num_public']} exceeds {_MOST_PUBLIC}, so that queries cannot be checked here"
    elif queries.tolist() != _chosen(public["num_public"], settings["seed"])[: len(queries)]:
        yield f"queries: are not the rows of the pool that settings.seed, {settings['seed']}, chooses"
    low, high = int(answers.min()), int(answers.max())
    if not REFUSED <= low <= high < public["num_classes"]:
        yield f"answers: holds {low} to {high}, expected {REFUSED} to {public['num_classes'] - 1}"
    given, name = int((answers != REFUSED).sum()), settings["mechanism"]["name"]
    if not given:
        yield "answers: holds none, so that no student can have learned from them"
    if given > settings["max_answers"]:
        yield f"answers: holds {given} answers, which exceeds settings.max_answers, {settings['max_answers']}"
    if name != "confident-gnmax" and given < len(answers):
        yield f"answers: refuses {len(answers) - given} queries, expected none, since {name} answers every query"
