"""The schema of a collection: whether every epsilon follows from its thresholds, and these from what was asked.

**A new mechanism adds its thresholds and its layout in** :func:`_features`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from ._documents import differences
from ._epsilon import SAMPLER_TAU
from ._reports import drawn, laplace_grid
from .events._gaussian import gaussian_log_delta

PARTS = ("features", "label", "links")
CELLS = 1024
_WORDS = 1 << 64
_MOST_SETS = 1 << 16
_CUT, _LEAST_REPORTS = 60, 100
_STEPS = 1 << 20
_MOST_DEVIATION = 2.0**35
_EXACT = Context(prec=120, rounding=ROUND_FLOOR, Emin=-(10**6), Emax=10**6)
Values = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """The integers of a report: ``count`` values from ``low`` to ``high``, about as many of ``of`` features (0: all)."""

    count: int
    low: int
    high: int
    of: int = 0

    @property
    def width(self) -> int:
        """Bits of a value."""
        return (self.high - self.low).bit_length()

    @property
    def index_width(self) -> int:
        """Bits of the number of a drawn feature."""
        return (self.of - 1).bit_length()

    @property
    def bitmap(self) -> bool:
        """Whether drawn features are written as a bit for each feature."""
        return self.of < self.count * self.index_width

    @property
    def bits(self) -> int:
        return self.count * self.width + (min(self.of, self.count * self.index_width) if self.of else 0)


class Part(NamedTuple):
    """What follows from one question: layouts, thresholds, epsilon before rounding upward (by up to ``slack``), and delta."""

    layouts: tuple[Layout, ...]
    thresholds: dict[str, Any]
    epsilon: Decimal | Fraction
    delta: float = 0.0
    slack: float = 1e-12
    bits_epsilon: float = 0.0  # what the bits of a neighbor list take


def question_faults(schema: Values) -> Iterator[str]:
    """Yield a problem for questions that no library asks, in a ``schema`` of the right form."""
    for name in ("opens", "closes"):
        try:
            datetime.strptime(schema[name], "%Y-%m-%dT%H:%M:%SZ")
        except ValueError:
            yield f"schema.{name}: is no time"
    if schema["opens"] >= schema["closes"]:
        yield "schema.closes: is not after opens"
    asked = [name for name in PARTS if name in schema]
    if not asked or sorted(schema["randomizers"]) != asked or ("links" in asked and len(asked) > 1):
        yield "schema.randomizers: are not those of its questions"
    anonymous = {name for name in ("upload", "least_reports", "token_key") if name in schema}
    if anonymous and (len(anonymous) < 3 or "links" in asked or schema["least_reports"] < _LEAST_REPORTS):
        yield "schema.upload: anonymous uploads need a least number of reports and a key, and no links"
    features, label = schema.get("features"), schema.get("label")
    if features and ("names" in features) == ("columns" in features):
        yield "schema.features: expected names or columns"
    elif features:
        columns = features.get("columns", [])
        names = features.get("names", [one["name"] for one in columns])
        if not names or len(set(names)) < len(names) or not all(one["min"] < one["max"] for one in columns):
            yield "schema.features: expected different names, and a range for each column"
    if label and not 2 <= len(label["classes"]) == len(set(label["classes"])):
        yield "schema.label.classes: expected two or more, all different"


def parts_of(schema: Values) -> dict[str, Part]:
    """Return what follows from every question of a schema, by its own arithmetic.

    The numbers that the schema may choose (buckets, cells of a window, sizes of sets, Gaussian noise) are read from its
    thresholds; whether they keep the epsilon is for :func:`schema_faults`.
    """
    made = {"features": _features, "label": _label, "links": _links}
    return {
        name: made[name](schema[name], schema["randomizers"][name]["thresholds"]) for name in PARTS if name in schema
    }


def schema_faults(schema: Values, parts: dict[str, Part]) -> Iterator[str]:
    """Yield a problem for every number of a ``schema`` that does not follow from its questions, of which ``parts`` are."""
    spent = Fraction(0)
    for name, part in parts.items():
        stated = schema["randomizers"][name]
        wanted = {"thresholds": part.thresholds, "bits": sum(one.bits for one in part.layouts), "delta": part.delta}
        for field, value in wanted.items():
            found = differences(stated[field], value, f"randomizers.{name}.{field}")
            yield from (f"{text} (compared with what the questions imply)" for text in found)
        if not _is_above(stated["epsilon"], part):
            yield f"randomizers.{name}.epsilon: expected {float(part.epsilon):.12g}, by its thresholds, got {stated['epsilon']!r}"
        spent += Fraction(stated["epsilon"])
    totals = {
        "epsilon": _upward(spent),
        "delta": math.fsum(part.delta for part in parts.values()),
        "bits": sum(one.bits for part in parts.values() for one in part.layouts),
    }
    yield from (f"{text} (compared with the sum)" for text in differences(schema["totals"], totals, "totals"))


def _is_above(stated: float, part: Part) -> bool:
    least, found = Fraction(part.epsilon), Fraction(stated)
    return least <= found <= least * (1 + Fraction(part.slack))


def _upward(number: Fraction) -> float:
    value = float(number)
    return value if Fraction(value) >= number else math.nextafter(value, math.inf)


def _features(asked: Values, stated: Values) -> Part:
    names = asked["names"] if "names" in asked else asked["columns"]
    d, mechanism, epsilon = len(names), asked["mechanism"], float(asked["epsilon"])
    total = epsilon * d if asked["per_feature"] else epsilon
    settings = {**asked, "epsilon_x": epsilon, "paper_rule": False}
    if mechanism == "laplace":
        steps, scale = laplace_grid(total, d)
        layout = Layout(d, -_CUT * scale, steps + _CUT * scale)
        return Part((layout,), {"parts": str(d), "scale": str(scale), "steps": str(steps)}, Fraction(d * steps, scale))
    if mechanism == "gaussian":
        return _gaussian(asked, stated, d)
    if mechanism == "collision":
        favored, others = min(asked["cap"], d), max(1, int(stated["others"]))
        return _drawn(Layout(1, 0, favored + others - 1), epsilon, favored, others)
    if mechanism == "direction":
        return _drawn(Layout(1, 0, 1), epsilon, 1, 1)
    if mechanism == "piecewise":
        m = d if asked["per_feature"] else min(max(1, int(stated["parts"])), d)
        favored = min(max(1, int(stated["favored"])), CELLS - 1)
        return _drawn(Layout(m, 0, CELLS - 1, 0 if m == d else d), total, favored, CELLS - favored, m)
    if mechanism == "multi-bit":
        m = drawn(settings, d, d)
        return _drawn(Layout(m, 0, 1, 0 if m == d else d), epsilon, 1, 1, m)
    if mechanism not in ("one-bit", "pgc"):
        raise ValueError(f"mechanism {mechanism!r}")
    if mechanism == "one-bit":
        return _drawn(Layout(d, 0, 1), epsilon, 1, 1, d)
    hit = _share(epsilon, 1, 1, 1)
    return Part((Layout(d, 0, 1),), _thresholds(hit, 1, 1, d), _ratio(hit, 1, 1, d))


def _gaussian(asked: Values, stated: Values, d: int) -> Part:
    """Noise with the delta asked for, less the sampler's share; its multiplier is read, and whether it is enough is checked."""
    epsilon, delta, noise = float(asked["epsilon"]), float(asked["delta"]), float(stated["noise_multiplier"])
    left = delta - (1 + math.exp(min(epsilon, 700.0))) * SAMPLER_TAU * d
    steps, spread = _STEPS, noise * math.sqrt(d)
    while steps > 1 and spread * steps >= _MOST_DEVIATION:
        steps //= 2
    least = spread * steps
    enough = left > 0 and math.exp(gaussian_log_delta(min(1 / noise, 1e6), epsilon)) <= left * (1 + 1e-6)
    deviation = float(stated["stddev"])
    if not enough or not least <= deviation <= least * (1 + 1e-12):
        deviation = least  # too little noise, or another number of steps: it shows as a difference
    reach = int(13 * deviation) + 1
    thresholds = {
        "noise_multiplier": noise if enough else 0.0,
        "parts": str(d),
        "stddev": deviation,
        "steps": str(steps),
    }
    return Part((Layout(d, -reach, steps + reach),), thresholds, _gaussian_epsilon(noise, left, epsilon), delta, 1e-6)


def _gaussian_epsilon(noise: float, delta: float, most: float) -> Fraction:
    """The least epsilon at which the noise has this delta, by bisection from below."""
    low, high = 0.0, most
    for _ in range(80):
        middle = (low + high) / 2
        if math.exp(gaussian_log_delta(min(1 / noise, 1e6), middle)) > delta:
            low = middle
        else:
            high = middle
    return Fraction(low) * (1 - Fraction(1, 10**9))


def _label(asked: Values, stated: Values) -> Part:
    classes = len(asked["classes"])
    if asked["mechanism"] not in ("subset", "randomized-response"):
        raise ValueError(f"mechanism {asked['mechanism']!r}")
    answers = [(1, classes - 1)]
    for k in range(2, classes // 2 + 1 if asked["mechanism"] == "subset" else 2):
        if math.comb(classes, k) > _MOST_SETS:
            break
        answers.append((math.comb(classes - 1, k - 1), math.comb(classes - 1, k)))
    said = int(stated["favored"]), int(stated["others"])
    favored, others = said if said in answers else (1, classes - 1)
    return _drawn(Layout(1, 0, favored + others - 1), float(asked["epsilon"]), favored, others)


def _links(asked: Values, _: Values) -> Part:
    users, epsilon = asked["users"], Fraction(asked["epsilon"])
    steps = int(epsilon * Fraction(asked["degree_share"]) * _STEPS)
    degree = Fraction(steps, _STEPS)
    hit = _share(-_upward(degree - epsilon), 1, 1, 1)
    thresholds = {"degree_steps": str(steps), **_thresholds(hit, 1, 1, 1)}
    bits = _upward(Fraction(_ratio(hit, 1, 1, 1)))
    layouts = Layout(1, -users, 2 * users), Layout(users - 1, 0, 1)
    return Part(layouts, thresholds, degree + Fraction(bits), bits_epsilon=bits)


def _drawn(layout: Layout, epsilon: float, favored: int, others: int, parts: int = 1) -> Part:
    hit = _share(epsilon, favored, others, parts)
    return Part((layout,), _thresholds(hit, favored, others, parts), _ratio(hit, favored, others, parts))


def _thresholds(hit: int, favored: int, others: int, parts: int) -> dict[str, str]:
    return {"favored": str(favored), "hit": str(hit), "others": str(others), "parts": str(parts)}


def _share(epsilon: float, favored: int, others: int, parts: int) -> int:
    """The most of 2^64 words that each favored outcome may get."""
    power = _EXACT.exp(min(_EXACT.divide(Decimal(epsilon), Decimal(parts)), Decimal(500)))
    share = _EXACT.divide(_EXACT.multiply(power, _WORDS), _EXACT.add(others, _EXACT.multiply(power, favored)))
    return min(int(share), (_WORDS - others) // favored)


def _ratio(hit: int, favored: int, others: int, parts: int) -> Decimal:
    """The exact epsilon: parts * log(hit * others / (2^64 - favored * hit))."""
    return _EXACT.multiply(_EXACT.ln(_EXACT.divide(hit * others, _WORDS - favored * hit)), parts)
