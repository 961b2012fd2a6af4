"""The verdict on a run: better or worse than its floor, or no difference that its test nodes could show; and what is kept.

Both come from paired comparisons (:mod:`sfumato.scoring.paired`), never from the difference of two means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.record.shown import round_up
from sfumato.scoring.answers import LOSSES, Answers
from sfumato.scoring.paired import LEVEL, Difference, Part, difference, holm, kept_share

Ranked = tuple[NDArray[np.int64], NDArray[np.float64]]
BETTER, WORSE, MIXED, NONE = "better", "worse", "mixed", "none"
_ENDS = ("difference", "low", "high")
_NAMES = {"accuracy": "accuracy", "roc_auc": "AUC", "log_loss": "log-loss", "squared_error": "squared error"}


def verdict(
    own: Sequence[Answers], floor: Sequence[Answers], ceilings: tuple[Sequence[Answers], Sequence[Answers]] | None
) -> dict[str, Any] | None:
    """Compare a run with its floor, and say which share of the gain of the ceiling over the floor it keeps.

    Args:
        own: what the run said of the test nodes of each seed.
        floor: what the floor said of them; empty without one.
        ceilings: what the ceiling said of them: the one of the score, and the one of the loss; None where a gain has no meaning.

    Returns:
        What metrics.json holds; None without a floor.
    """
    if not floor:
        return None
    names = list(own[0].compared)
    found = {name: compared(own, floor, name) for name in names}
    one = found[names[0]]
    said: dict[str, Any] = {"nodes": one.nodes, "seeds": one.seeds, "against_floor": judged(found)}
    said["differences"] = {name: each.to_dict() for name, each in found.items()}
    if ceilings is not None:
        most = {name: ceilings[name in LOSSES] for name in names}
        said["kept"] = {name: _kept(own, floor, most[name], name) for name in names}
        said["graph_adds"] = {name: compared(most[name], floor, name).to_dict() for name in names}
    return said


def compared(own: Sequence[Answers], other: Sequence[Answers], name: str) -> Difference:
    """Compare what two models said of the same nodes, seed by seed.

    Args:
        own: what the first said of the test nodes of each seed.
        other: what the second said of them.
        name: what is measured node by node, such as ``log_loss``.
    """
    return difference(_parts([one.compared[name] for one in own], [one.compared[name] for one in other], own))


def verdict_on_pairs(
    own: Sequence[Ranked], floor: Sequence[Ranked], ceiling: Sequence[Ranked], adds: str
) -> dict[str, Any] | None:
    """Compare the ranking of held-out pairs by a run with that by its floor, and say which share of the gain it keeps.

    Args:
        own: of each seed the ids of the pairs, and the area under the ROC curve by pair.
        floor: the same of the floor; empty without one.
        ceiling: the same of the ceiling; empty without one.
        adds: what the ceiling has beyond the floor, in words.

    Returns:
        What metrics.json holds; None without a floor.
    """
    if not floor:
        return None
    one = difference([(at, (mine - its)[:, None]) for (at, mine), (_, its) in zip(own, floor, strict=True)])
    said: dict[str, Any] = {"of": "held-out pairs", "adds": adds, "nodes": one.nodes, "seeds": one.seeds}
    said |= {"against_floor": judged({"roc_auc": one}), "differences": {"roc_auc": one.to_dict()}}
    if ceiling:
        rows = zip(own, floor, ceiling, strict=True)
        share = kept_share(
            [(at, np.stack([mine - low, most - low], axis=1)) for (at, mine), (_, low), (_, most) in rows]
        )
        said["kept"] = {"roc_auc": None if share is None else asdict(share)}
    return said


def judged(found: Mapping[str, Difference]) -> str:
    """Return in one word what differences from a floor say together, corrected for their number.

    >>> clear, open = Difference(-0.1, -0.2, -0.05, 0.001, 90, 1), Difference(0.2, -0.1, 0.5, 0.2, 90, 1)
    >>> judged({"accuracy": clear, "log_loss": open})
    'worse'
    """
    corrected = zip(found.items(), holm([each.p for each in found.values()]), strict=True)
    signs = {_sign(name) * np.sign(each.mean) for (name, each), p in corrected if each.clear and p < LEVEL}
    return NONE if not signs else MIXED if len(signs) > 1 else BETTER if signs == {1} else WORSE


def verdict_words(said: Mapping[str, Any]) -> str:
    """Return the comparison with the floor in one sentence.

    Args:
        said: what :func:`verdict` returned, or metrics.json holds of it.

    >>> right = {"difference": -0.0016, "low": -0.0040, "high": 0.0007, "p": 0.25}
    >>> verdict_words({"nodes": 1213, "seeds": 1, "against_floor": "none", "differences": {"accuracy": right}}).partition(": ")[2]
    'accuracy -0.2 points [-0.4, +0.1], no difference that 1,213 nodes could show.'
    """
    of = said.get("of", "test nodes")
    nodes, each = f"{said['nodes']:,} {of}", said["differences"]
    splits = f" of {said['seeds']} splits" if said["seeds"] > 1 else ""
    parts = ", ".join(f"{_NAMES[name]} {_change(name, one)}" for name, one in each.items())
    told = {
        BETTER: "better than the floor",
        WORSE: "worse than the floor",
        NONE: f"no difference that {said['nodes']:,} {of.split()[-1]} could show",
    }
    if not any(one[key] for one in each.values() for key in _ENDS):
        return f"On {nodes}{splits} this run and the floor give the same answers."
    sides = {side: [_NAMES[name] for name, one in each.items() if _leans(name, one) == side] for side in (1, -1)}
    told[MIXED] = f"better by {' and '.join(sides[1])}, and worse by {' and '.join(sides[-1])}"
    return f"Against the floor, on the same {nodes}{splits}: {parts}, {told[said['against_floor']]}."


def kept_words(said: Mapping[str, Any]) -> str:
    """Return in words what a run keeps of what its ceiling has beyond its floor; empty if that was not measured.

    ``said`` is that of :func:`verdict_words`.

    >>> kept_words({"nodes": 600, "kept": {"accuracy": {"share": 0.931, "low": 0.87, "high": 0.994}, "log_loss": None}})
    'Kept of what the graph adds: 93 % of accuracy [87, 99]. To log-loss it adds nothing that 600 nodes could show.'
    """
    if "kept" not in said:
        return ""
    shares = [
        f"{100 * one['share']:.0f} % of {_NAMES[name]} [{100 * one['low']:.0f}, {100 * one['high']:.0f}]"
        for name, one in said["kept"].items()
        if one
    ]
    nothing = [_NAMES[name] for name, one in said["kept"].items() if not one]
    nodes = f"nothing that {said['nodes']:,} {said.get('of', 'nodes').split()[-1]} could show"
    adds = said.get("adds", "the graph adds")
    if not shares:
        return f"To {' and '.join(nothing)} {adds} {nodes}, so there is no share to keep."
    words = f"Kept of what {adds}: {', '.join(shares)}."
    return words + (f" To {' and '.join(nothing)} it adds {nodes}." if nothing else "")


def floor_words(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the floor is released, and what that costs, where it is not worse than the run; else nothing.

    ``result`` is what metrics.json holds.
    """
    said, release = result["verdict"], result.get("floor_release")
    if release is not None and "saved" in release:
        return (f"The floor is saved in {release['saved']}. It reads nothing that is protected, and spends nothing.",)
    if release is None or said["against_floor"] not in (WORSE, NONE):
        return ()
    wish = "Release the floor instead" if said["against_floor"] == WORSE else "To release the floor instead"
    costs = "It reads nothing that is protected, and spends nothing more."
    if release["epsilon"]:
        costs = (
            f"It costs epsilon = {round_up(release['epsilon'])} beside what this run has spent, and this comparison read "
            "protected labels: to choose by it is outside the guarantee."
        )
    return f"{wish}: {release['command']}", costs


def _kept(
    own: Sequence[Answers], floor: Sequence[Answers], ceiling: Sequence[Answers], name: str
) -> dict[str, float] | None:
    sign, base = _sign(name), [one.compared[name] for one in floor]
    parts = [
        (at.nodes, sign * np.stack([mine.compared[name] - low, most.compared[name] - low], axis=1))
        for at, mine, most, low in zip(own, own, ceiling, base, strict=True)
    ]
    share = kept_share(parts)
    return None if share is None else asdict(share)


def _parts(own: Sequence[Any], other: Sequence[Any], of: Sequence[Answers]) -> list[Part]:
    return [(at.nodes, (mine - its)[:, None]) for at, mine, its in zip(of, own, other, strict=True)]


def _sign(name: str) -> int:
    return -1 if name in LOSSES else 1


def _leans(name: str, one: Mapping[str, Any]) -> int:
    """On which side of the floor a run is, if the interval says so: 1 if better, -1 if worse, else 0."""
    clear = one["low"] is not None and not one["low"] <= 0 <= one["high"]
    return int(_sign(name) * np.sign(one["difference"])) if clear else 0


def _change(name: str, one: Mapping[str, Any]) -> str:
    scale, digits, unit = (1, 3, "") if name in LOSSES else (100, 1, " points")
    shown = {key: f"{round(scale * one[key], digits) + 0.0:+.{digits}f}" for key in _ENDS if one[key] is not None}
    ends = f" [{shown['low']}, {shown['high']}]" if "low" in shown else ""
    return f"{shown['difference']}{unit}{ends}"
