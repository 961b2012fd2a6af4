r"""What the verifier knows of PATE: what its settings imply, and what its answers and networks must look like.

One vote moves between neighbors, so the counts of a query move by :math:`\sqrt 2` in L2 and 2 in L1, and their maximum by 1:
noise multipliers are :math:`\sigma_2 / \sqrt 2`, :math:`b / 2` and :math:`\sigma_1`. Every query is charged, refused or not.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from ._caveats import Found, of_the_claim
from ._documents import differences
from ._kinds import Answers, Planned
from ._rules import Certificate, Rules, Tensors
from ._values import case_faults

if TYPE_CHECKING:
    from ._tensors import Stored

_MECHANISMS = {
    "lnmax": {"scale": "votes"},
    "gnmax": {"noise_stddev": "votes"},
    "confident-gnmax": {"threshold": "number", "threshold_stddev": "votes", "noise_stddev": "votes"},
}
_NETWORK = {
    "network": "one of edges, cnn, deep, mlp", "widths": "counts", "epochs": "count", "batch_size": "count",
    "learning_rate": "positive", "seed": "index", "device": "device",
}  # fmt: skip
_NOISY = {**_NETWORK, "noise_rate": "fraction", "ramp": "count", "as_published": "flag"}
_STUDENTS = {
    "consistency": {
        "width": "count", "neighbors": "count", "slanted": "flag", "steps": "count", "batch_size": "count",
        "threshold": "fraction", "learning_rate": "positive", "average": "fraction", "warm_up": "fraction",
        "max_shift": "index up to 14", "max_degrees": "amount up to 180", "max_scale": "fraction", "cut_out": "index up to 28",
        "mirror": "flag", "seed": "index",
    },
    "gan": _NETWORK,
    "coteaching": _NOISY,
    "pate-plus": _NOISY,
    "pate-plus-plus": {**_NOISY, "removal": "fraction", "decay": "amount up to 1", "per_class": "flag"},
}  # fmt: skip
_UNIT = {"name": "record", "relation": "replace"}
_REFUSED = -1
_MOST_PUBLIC = 10**7
_CONVOLUTIONS = {  # which of the first two widths, kernel, stride and padding
    "cnn": ((0, 5, 2, 0), (1, 3, 2, 1)),
    "deep": ((0, 3, 1, 1), (0, 3, 1, 1), (0, 3, 2, 1), (1, 3, 1, 1), (1, 3, 1, 1), (1, 3, 2, 1), (1, 5, 1, 2)),
}
_EDGES = 12 * 7 * 7  # numbers that describe an image: directions by cells
_THRESHOLDS = -(2**15), 2**40  # votes: what the library takes; every query is charged, whatever the threshold is


class PATE(Rules):
    """The rules of PATE: teachers' votes answer public queries, and a student learns from the answers."""

    audience: ClassVar = {
        "record": {
            "anyone": ["student", "queries and answers"],
            "the node itself": [],
            "never": ["teachers", "votes before noise"],
        }
    }
    settings: ClassVar = {
        "dataset": "name", "num_teachers": "count", "teacher": "one of kernel, cnn", "num_queries": "count",
        "max_answers": "count", "mechanism": "object", "student": "object", "quick": "flag", "seed": "index",
    }  # fmt: skip
    trust = "curator of records"
    facts = "pate_facts"

    def setting_faults(self, certificate: Certificate) -> Iterator[str]:
        settings, found = certificate["settings"], list(super().setting_faults(certificate))
        for part, cases in (("mechanism", _MECHANISMS), ("student", _STUDENTS)) if not found else ():
            found += case_faults(settings[part], cases, f"certificate.json: settings.{part}")
        yield from found
        if not found:
            yield from _contradictions(settings, certificate["public_facts"]["num_public"])

    def faults(self, certificate: Certificate) -> Iterator[str]:
        for field, value in (("unit", _UNIT), ("assumed_public", [])):
            found = differences(certificate[field], value, field)
            yield from (f"certificate.json: {text} (compared with what the method implies)" for text in found)

    def releases(self, certificate: Certificate) -> list[Planned]:
        settings, classes = certificate["settings"], certificate["public_facts"]["num_classes"]
        mechanism, queries = settings["mechanism"], settings["num_queries"]
        if mechanism["name"] == "lnmax":
            event = _event("laplace", mechanism["scale"] / 2, queries)
        else:
            event = _event("gaussian", mechanism["noise_stddev"] / math.sqrt(2), settings["max_answers"])
        found: list[Planned] = [Answers("answers", [queries], classes, event, parts=("queries", "answers"))]
        if mechanism["name"] != "confident-gnmax":
            return found
        threshold = _event("gaussian", float(mechanism["threshold_stddev"]), queries)
        return [Answers("threshold", [queries], 1, threshold, parts=()), *found]

    def networks(self, certificate: Certificate, found: Iterable[str] = ()) -> Tensors:
        student, public = certificate["settings"]["student"], certificate["public_facts"]
        if student["name"] == "consistency":
            layers = {"network.0": [student["width"], _EDGES], "network.2": [public["num_classes"], student["width"]]}
        else:
            one = _discriminator(student, public)
            number = 1 if student["name"] == "gan" else 2
            layers = {f"discriminator/{i}.{name}": shape for i in range(number) for name, shape in one.items()}
        weights = {f"{name}.weight": shape for name, shape in layers.items()}
        return weights | {f"{name}.bias": shape[:1] for name, shape in layers.items()}

    def caveats(self, certificate: Certificate) -> list[str]:
        return [
            "Epsilon is what the caps on queries and answers cost, whatever the votes are. An epsilon that depends on votes is "
            "not in the claim, and must not be told without noise of its own.",
            "A record that is added or removed is protected alike, if no other changes its id (of named images: the row in the "
            "published file, which a removed one leaves vacant). Who has records under several ids is protected less: epsilon "
            "adds up.",
        ]

    def doubts(self, certificate: Certificate) -> Found:
        teachers, mechanism = certificate["settings"]["num_teachers"], certificate["settings"]["mechanism"]
        yield from of_the_claim(certificate, teachers, "teachers")
        deviation = mechanism["scale"] * math.sqrt(2) if "scale" in mechanism else mechanism["noise_stddev"]
        if teachers < 2 * deviation:
            yield (
                "noisy-votes",
                f"{teachers} teachers are fewer than two standard deviations of the noise on a count of votes: answers are "
                "close to random even where all agree. Take more teachers, fewer queries or a larger epsilon.",
            )

    def value_faults(self, certificate: Certificate, released: Mapping[str, Stored]) -> Iterator[str]:
        found = list(super().value_faults(certificate, released))
        yield from found or answer_faults(released["queries"].array(), released["answers"].array(), certificate)


def _event(kind: str, noise: float, count: int) -> dict[str, Any]:
    return {"type": kind, "noise_multiplier": noise, "count": count}


def _contradictions(settings: dict[str, Any], pool: int) -> Iterator[str]:
    """Yield a problem for settings that contradict each other."""
    queries, answers, where = settings["num_queries"], settings["max_answers"], "certificate.json: settings."
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
    if len(student["widths"]) < (least := 3 if student["network"] in _CONVOLUTIONS else 1):
        yield f"{where}student.widths: expected at least {least} numbers, got {len(student['widths'])}"


def _discriminator(student: dict[str, Any], public: dict[str, Any]) -> dict[str, list[int]]:
    inputs, height, width = public["image_shape"]
    widths, columns = student["widths"], _EDGES if student["network"] == "edges" else inputs * height * width
    layers: dict[str, list[int]] = {}
    if student["network"] in _CONVOLUTIONS:
        channels, widths, sides = widths[:2], widths[2:], [height, width]
        for i, (part, kernel, stride, padding) in enumerate(_CONVOLUTIONS[student["network"]]):
            layers[f"convolutions.{i}"] = [channels[part], inputs, kernel, kernel]
            inputs, sides = channels[part], [(side + 2 * padding - kernel) // stride + 1 for side in sides]
        columns = inputs * math.prod(sides)
    for i, (wide, narrow) in enumerate(pairwise([columns, *widths])):
        layers[f"layers.{i}"] = [narrow, wide]
    return {**layers, "head": [public["num_classes"], widths[-1]]}


def _chosen(pool: int, seed: int) -> list[int]:
    """Return the rows of the pool in the order in which a seed asks about them."""
    return sorted(range(pool), key=lambda row: hashlib.sha256(f"query {seed} {row}".encode()).digest())


def answer_faults(queries: Any, answers: Any, certificate: dict[str, Any]) -> Iterator[str]:
    """Yield a problem for ``queries`` that the seed does not choose, and for ``answers`` that are impossible.

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
    if not _REFUSED <= low <= high < public["num_classes"]:
        yield f"answers: holds {low} to {high}, expected {_REFUSED} to {public['num_classes'] - 1}"
    given, name = int((answers != _REFUSED).sum()), settings["mechanism"]["name"]
    if not given:
        yield "answers: holds none, so that no student can have learned from them"
    if given > settings["max_answers"]:
        yield f"answers: holds {given} answers, which exceeds settings.max_answers, {settings['max_answers']}"
    if name != "confident-gnmax" and given < len(answers):
        yield f"answers: refuses {len(answers) - given} queries, expected none, since {name} answers every query"
