"""The verdict on a run: better or worse than its floor, or no difference that its test nodes could show; and what is kept.

Both come from paired comparisons (:mod:`sfumato.scoring._paired`), never from the difference of two means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.record._shown import round_up
from sfumato.scoring._answers import LOSSES, Answers
from sfumato.scoring._enough import Enough
from sfumato.scoring._paired import Difference, difference, kept_share

Ranked = tuple[NDArray[np.int64], NDArray[np.float64]]
BETTER, WORSE, MIXED, NONE = "better", "worse", "mixed", "none"
_ENDS = ("difference", "low", "high")
_NAMES = {"accuracy": "accuracy", "roc_auc": "AUC", "log_loss": "log-loss", "squared_error": "squared error"}


def verdict(
    own: Sequence[Answers],
    floor: Sequence[Answers],
    ceiling: Sequence[Answers] | None,
    classes: Sequence[str] = (),
) -> dict[str, Any] | None:
    """Compare a run with its floor, and say which share of the gain of the ceiling over the floor it keeps.

    Scores that too few nodes of a class have a part in are left out (:class:`~sfumato.scoring._enough.Enough`).
    """
    if not floor:
        return None
    enough = Enough.of(own, classes)
    found = {name: _compared(own, floor, name, enough, len(enough.names)) for name in enough.names}
    one = found[enough.names[0]]
    said: dict[str, Any] = {"nodes": one.nodes, "seeds": one.seeds, "against_floor": judged(found), "together": True}
    said["differences"] = {name: each.to_dict() for name, each in found.items()}
    said["lacking"], said["same"] = enough.lacking, all(map(_same, own, floor))
    if ceiling is not None:
        said["kept"] = {name: _kept(own, floor, ceiling, name, enough) for name in enough.names}
        said["graph_adds"] = {name: _compared(ceiling, floor, name, enough).to_dict() for name in enough.names}
    return said


def _compared(
    own: Sequence[Answers], other: Sequence[Answers], name: str, enough: Enough, tests: int = 1
) -> Difference:
    """Compare what two models said of the same nodes, seed by seed."""
    parts = [
        (one.nodes, (enough.values(one, name) - enough.values(its, name))[:, None])
        for one, its in zip(own, other, strict=True)
    ]
    return difference(parts, enough.strata_of(name), tests)


def verdict_on_pairs(
    own: Sequence[Ranked], floor: Sequence[Ranked], ceiling: Sequence[Ranked], adds: str
) -> dict[str, Any] | None:
    """Compare the ranking of held-out pairs by a run with that by its floor, and say which share of the gain it keeps."""
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
    """Return in one word what differences from a floor say together, by their intervals, which hold together."""
    signs = {_sign(name) * np.sign(each.mean) for name, each in found.items() if each.clear}
    return NONE if not signs else MIXED if len(signs) > 1 else BETTER if signs == {1} else WORSE


def verdict_words(said: Mapping[str, Any]) -> str:
    """Return the comparison with the floor in one sentence."""
    of = said.get("of", "test nodes")
    nodes, each = f"{said['nodes']:,} {of}", said["differences"]
    splits = f" of {said['seeds']} splits" if said["seeds"] > 1 else ""
    parts = ", ".join(f"{_NAMES[name]} {_change(name, one)}" for name, one in each.items())
    told = {
        BETTER: "better than the floor",
        WORSE: "worse than the floor",
        NONE: f"no difference that {said['nodes']:,} {of.split()[-1]} could show",
    }
    lacking = said.get("lacking", "")
    if said.get("same", not any(one[key] for one in each.values() for key in _ENDS)):
        return f"On {nodes}{splits} this run and the floor give the same answers."
    sides = {side: [_NAMES[name] for name, one in each.items() if _leans(name, one) == side] for side in (1, -1)}
    told[MIXED] = f"better by {' and '.join(sides[1])}, and worse by {' and '.join(sides[-1])}"
    joint = ", intervals that hold together at 95 %" if said.get("together") and len(each) > 1 else ""
    words = f"Against the floor, on the same {nodes}{splits}{joint}: {parts}, {told[said['against_floor']]}."
    return f"{words} {lacking}".strip()


def kept_words(said: Mapping[str, Any]) -> str:
    """Return in words what a run keeps of what its ceiling has beyond its floor; empty if that was not measured."""
    if "kept" not in said:
        return ""
    each, count = said["kept"], f"{said['nodes']:,} {said.get('of', 'nodes').split()[-1]}"
    shares = [
        f"{100 * one['share']:.0f} % of {_NAMES[name]} [{100 * one['low']:.0f}, {100 * one['high']:.0f}]"
        for name, one in each.items()
        if telling(one)
    ]
    wide = [_NAMES[name] for name, one in each.items() if one and not telling(one)]
    nothing = [_NAMES[name] for name, one in each.items() if not one]
    adds = said.get("adds", "the graph adds")
    words = [f"Kept of what {adds}: {', '.join(shares)}."] if shares else []
    if wide:
        words.append(f"How much is kept of what {adds} to {' and '.join(wide)} cannot be said with {count}.")
    if nothing:
        rest = "." if words else ", so there is no share to keep."
        it = "it adds" if words and "adds" in adds else adds
        words.append(f"To {' and '.join(nothing)} {it} nothing that {count} could show{rest}")
    return " ".join(words)


def telling(share: Mapping[str, float] | None) -> bool:
    """Return whether the interval of a kept share says anything: it is no wider than from nothing to everything."""
    return share is not None and share["high"] - share["low"] <= 1


def floor_words(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return how the floor is released, and what that costs, where it is not worse than the run; else nothing."""
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


def _same(one: Answers, other: Answers) -> bool:
    return np.array_equal(one.told, other.told) and np.array_equal(one.chances, other.chances)


def _kept(
    own: Sequence[Answers], floor: Sequence[Answers], ceiling: Sequence[Answers], name: str, enough: Enough
) -> dict[str, float] | None:
    sign, parts = _sign(name), []
    for mine, low, most in zip(own, floor, ceiling, strict=True):
        base = enough.values(low, name)
        gains = [enough.values(one, name) - base for one in (mine, most)]
        parts.append((mine.nodes, sign * np.stack(gains, axis=1)))
    share = kept_share(parts, enough.strata_of(name))
    return None if share is None else asdict(share)


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
