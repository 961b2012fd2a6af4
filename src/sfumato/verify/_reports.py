"""Reports of features and labels: their number and width, what they cost, and the answers that they can hold.

Part of the verifier: it needs the standard library. **A new mechanism adds its name in** :data:`QUESTIONS`, its favored outcomes
in :func:`_outcomes`, and its answers in :func:`feature_form`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from ._epsilon import SAMPLER_TAU
from .events._gaussian import gaussian_log_delta

if TYPE_CHECKING:
    from ._kinds import Form, Values
    from ._rules import Audience

FEATURES, LABELS = "feature-reports", "label-reports"
SENT: Audience = {"anyone": ["reports", "weights", "predictions for all nodes"], "the node itself": [], "never": []}
QUESTIONS = {
    "epsilon_x": "budget or null", "epsilon_y": "budget or null",
    "mechanism": "one of multi-bit, one-bit, laplace, gaussian, piecewise, pgc, collision, direction",
    "label_mechanism": "one of subset, randomized-response", "paper_rule": "flag", "per_feature": "flag",
    "low": "number up to 1000000", "high": "number", "cap": "count", "delta": "part"}  # fmt: skip
_WORDS = 2.0**64
_LARGEST_EPSILON = 1e4
_MOST_SETS, _MOST_BUCKETS, _CELLS = 1 << 16, 1 << 20, 1024
_FINEST, _LARGEST_SCALE, _CUT = 2**20, 2**31, 60  # of Laplace noise: grid, scale, and where it is cut


def report_faults(where: str, release: dict[str, Any], certificate: dict[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a kind of report: each user sends one, of the mechanism's width, at the budget asked for."""
    event, settings, public = release["event"], certificate["settings"], certificate["public_facts"]
    features = release["name"] == FEATURES
    gaussian, shape, d = features and settings["mechanism"] == "gaussian", release["shape"], public["num_features"]
    if shape[:1] != [public["num_nodes"]] or len(shape) != 1 + features:
        yield f"{where}shape: expected {public['num_nodes']} users{' and a width' * features}, got {shape[:4]}"
    affected = d if gaussian else 0
    if release["affected_coordinates"] != affected:
        yield f"{where}affected_coordinates: expected {affected}, got {release['affected_coordinates']}"
    kind = "gaussian" if gaussian else "pure"
    if event["type"] != kind or event["count"] != 1:
        yield f"{where}event: expected one report of type {kind}"
        return
    name = "epsilon_x" if features else "epsilon_y"
    asked = settings[name]
    if asked is None or not 0 < asked <= _LARGEST_EPSILON or (features and d < 1):
        yield f"{where}event: settings.{name} and public_facts.num_features give no report: expected {name} up to 10000"
    elif len(shape) == 1 + features:
        strange = list(_width_faults(where, shape, settings, d)) if features else []
        yield from strange or (_noise_faults if gaussian else _pure_faults)(where, release, certificate, float(asked))


def _width_faults(where: str, shape: list[int], settings: Values, d: int) -> Iterator[str]:
    """Yield a problem for a report of another width than the mechanism sends, and for a budget of each feature without need."""
    mechanism, each = settings["mechanism"], settings["per_feature"]
    if (each and mechanism not in ("pgc", "piecewise", "laplace")) or (mechanism == "pgc" and not each):
        yield f"{where}event: settings.per_feature: expected {str(not each).lower()} with {mechanism}"
    m, width = drawn(settings, d, shape[1]), shape[1]
    if width != _width(mechanism, m, d) or not _plausible(settings, m, d):
        yield f"{where}shape: expected the width of {mechanism} reports about {d} features, got {width}"


def drawn(settings: Values, d: int, width: int) -> int:
    """Return the number of features that a report is about."""
    mechanism, epsilon = settings["mechanism"], float(settings["epsilon_x"])
    if mechanism in ("collision", "direction"):
        return 1
    if mechanism == "piecewise":
        return d if width == d or settings["per_feature"] else width // 2
    if mechanism != "multi-bit":
        return d
    if settings["paper_rule"] or epsilon < 1:  # both rules: one
        return min(max(1, math.floor(epsilon / 2.18)), d)
    candidates = range(1, min(d, math.ceil(epsilon) + 1) + 1)
    return min(candidates, key=lambda m: 1 / (m * math.tanh(epsilon / (2 * m)) ** 2))


def _width(mechanism: str, m: int, d: int) -> int:
    if mechanism in ("collision", "direction"):
        return 1
    return 2 * m if m < d else d


def _plausible(settings: Values, m: int, d: int) -> bool:
    """Return whether piecewise reports can be about m features: the best number gives each about 2.5, never more than 4."""
    epsilon = float(settings["epsilon_x"])
    return settings["mechanism"] != "piecewise" or m == d or (1 <= m <= math.ceil(epsilon / 2) + 1 and epsilon <= 4 * m)


def _noise_faults(where: str, release: Values, certificate: dict[str, Any], asked: float) -> Iterator[str]:
    """Yield a problem unless Gaussian noise has, at the epsilon asked for, the delta asked for less the sampler's share."""
    delta, d = certificate["settings"]["delta"], certificate["public_facts"]["num_features"]
    if delta >= 1:
        yield f"{where}event: settings.delta: expected a number between 0 and 1"
        return
    left = delta - min(1.0, (1 + math.exp(min(asked, 700.0))) * SAMPLER_TAU * d)
    noise = release["event"]["noise_multiplier"]
    spent = math.exp(gaussian_log_delta(min(1 / noise, 1e6), asked))
    if left <= 0 or not math.isclose(spent, left, rel_tol=1e-6):
        wanted = f"one of epsilon {asked:.9g} at delta {delta:.9g}, as the settings ask"
        yield f"{where}event.noise_multiplier: expected {wanted}, got {noise:.9g}, which has delta {spent:.9g} there"


def _pure_faults(where: str, release: Values, certificate: dict[str, Any], asked: float) -> Iterator[str]:
    """Yield a problem unless pure reports have at most the epsilon asked for, and as little less as 64-bit words allow."""
    settings, public, found = certificate["settings"], certificate["public_facts"], release["event"]["epsilon"]
    features, d = release["name"] == FEATURES, public["num_features"]
    total = asked * d if features and settings["per_feature"] else asked
    if features and settings["mechanism"] == "laplace":
        steps, scale = laplace_grid(total, d)
        low = high = float(Fraction(d * steps, scale))
        low, high = low * (1 - 1e-12), high * (1 + 1e-12)
    else:
        draws = drawn(settings, d, release["shape"][1]) if features else 1
        low = least_epsilon(total, draws, *_outcomes(release["name"], settings, public))
        high = (1 + 1e-9) * total
    if not low <= found <= high:
        yield f"{where}event.epsilon: expected about {total:.9g}, as the settings ask, got {found:.9g}"


def laplace_grid(epsilon: float, d: int) -> tuple[int, int]:
    """Return the steps in a range, and the scale in steps, of discrete Laplace noise at ``epsilon`` about ``d`` features."""
    spread, steps = Fraction(d) / Fraction(epsilon), _FINEST
    while steps > 1 and spread * steps > _LARGEST_SCALE:
        steps //= 2
    return steps, math.ceil(spread * steps)


def _outcomes(name: str, settings: Values, public: Values) -> tuple[int, int]:
    """Return bounds A and N of a draw that favors k outcomes over o others: k (k + o) / o <= A and k + o <= N."""
    if name == LABELS:
        answers = label_answers(settings, public["num_classes"])
        return answers if settings["label_mechanism"] == "subset" else 2, answers
    if settings["mechanism"] == "collision":
        hit = min(settings["cap"], public["num_features"])
        return hit * (hit + 1), hit + _MOST_BUCKETS
    return (2 * _CELLS, _CELLS) if settings["mechanism"] == "piecewise" else (2, 2)


def label_answers(settings: Values, classes: int) -> int:
    """Return the largest number of answers to a question about a label: classes, or sets of classes.

    >>> label_answers({"label_mechanism": "subset"}, 7), label_answers({"label_mechanism": "randomized-response"}, 7)
    (35, 7)
    """
    answers = classes
    if settings["label_mechanism"] == "subset":
        for k in range(2, classes // 2 + 1):
            if math.comb(classes, k) > _MOST_SETS:
                break
            answers = math.comb(classes, k)
    return answers


def least_epsilon(epsilon: float, draws: int, favored: int, outcomes: int) -> float:
    """Return the least epsilon that ``draws`` independent draws of 64-bit words realize if they share ``epsilon``.

    Each of the k favored among k + o outcomes gets H whole words, where H is the largest number that keeps the ratio and leaves
    a word for each other outcome. Then a draw realizes at least epsilon - log(1 + (A e^epsilon + 4 N) / 2^64), where
    A = ``favored`` bounds k (k + o) / o and N = ``outcomes`` bounds k + o. So a single draw never has more than about 44, but
    many draws have much more.

    >>> [round(least_epsilon(epsilon, draws, 2, 2), 6) for epsilon, draws in ((1.0, 1), (200.0, 1), (200.0, 50))]
    [1.0, 43.668272, 200.0]
    """
    each = epsilon / draws
    missed = math.log1p((favored * math.exp(min(each, 600.0)) + 4 * outcomes) / _WORDS) + max(0.0, each - 600)
    return draws * (each - missed) * (1 - 1e-12)


def label_form(certificate: dict[str, Any]) -> Form:
    """Return the type and range of label reports: one of the answers, or -1 from a user who reports none."""
    return (
        "I32",
        0,
        (0, 0),
        (-1, label_answers(certificate["settings"], certificate["public_facts"]["num_classes"]) - 1),
    )


def feature_form(certificate: dict[str, Any], width: int) -> Form:
    settings, d = certificate["settings"], certificate["public_facts"]["num_features"]
    mechanism, far = settings["mechanism"], 2**63 - 1
    m = drawn(settings, d, width)
    first = m if mechanism in ("multi-bit", "piecewise") and width == 2 * m else 0
    if mechanism == "laplace":
        steps, scale = laplace_grid(float(settings["epsilon_x"]) * (d if settings["per_feature"] else 1), d)
        return "I64", 0, (0, 0), (-_CUT * scale, steps + _CUT * scale)
    if mechanism == "gaussian":
        return "I64", 0, (0, 0), (-far, far)
    if mechanism == "collision":
        return "I32", 0, (0, 0), (0, min(settings["cap"], d) + _MOST_BUCKETS - 1)
    if mechanism == "piecewise":
        return "I32", first, (0, d - 1), (0, (_CELLS if first or settings["per_feature"] else max(d, _CELLS)) - 1)
    return "I32" if first else "U8", first, (0, d - 1), (0, 1)
