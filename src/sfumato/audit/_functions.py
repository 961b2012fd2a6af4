r"""Any mechanism from outside, as a function of data: run on two data sets that differ in one record, and told apart.

The function is run many times on either. A part of the outputs teaches scores, and the others are scored:

* *frequencies*: of outputs that come again, the log-ratio of how often each was seen;
* *a classifier*: of outputs that are numbers, the log-odds of boosted trees on them.

Scores that are learned from some runs are fixed for all others, so bounds on those hold whatever was learned. The attacker knows
both data sets, and reads what the function returns, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato._validate import check_int, fail
from sfumato.audit._evidence import CONFIDENCE, Audit
from sfumato.audit._outputs import Read, read_output
from sfumato.audit._thresholds import Split, audit_runs
from sfumato.errors import InputError

if TYPE_CHECKING:
    from sfumato.privacy.budget import Budget

Floats = NDArray[np.float64]
_KNOWS = "both data sets and the output"
_TAUGHT = 3  # every third run teaches
_LARGE = 1e300


def audit_function(
    mechanism: Callable[[Any], Any],
    pair: tuple[Any, Any],
    budget: Budget,
    *,
    runs: int = 6000,
    confidence: float = CONFIDENCE,
    told: Callable[[int, int], None] | None = None,
) -> Audit:
    """Run a mechanism many times on two neighboring data sets, and return the epsilon that its outputs rule out.

    **Formal guarantee.** If the mechanism is (epsilon, delta)-DP for this pair and draws fresh randomness in each run, the
    result is flagged with probability at most 1 - ``confidence``. Nothing is assumed of its code or of its outputs. An audit
    that finds nothing proves nothing: another pair, or more runs, may.

    Args:
        mechanism: called with a copy of a data set; what it returns is released. It has to draw fresh noise each time.
        pair: two data sets that differ in one record, as bad as the unit allows.
        budget: that the mechanism claims to keep.
        runs: how often it is run on each of both, at least 30.
        confidence: of all bounds together.
        told: is told of progress, with runs done and runs in all.

    Raises:
        InputError: there are fewer than 30 runs, the mechanism raises an error, or it returns what cannot be read
            (:func:`~sfumato.audit._outputs.read_output`).

    >>> from sfumato.privacy.budget import Budget
    >>> coin = np.random.default_rng(0)
    >>> found = audit_function(lambda bit: bit ^ (coin.random() < 0.1), (0, 1), Budget(1.0, 0.0), runs=2000)
    >>> found.flagged, 1.5 < found.epsilon_lower_bound < 2.2
    (True, True)

    Source: the two-sample form of Ding et al. 2018, section 4, with exact bounds in place of tests.
    """
    check_int(low=30, runs=runs)
    outputs: list[list[Read]] = []
    for side, data in enumerate(pair):
        outputs.append([])
        for run in range(runs):
            outputs[side].append(_run(mechanism, data, ("first", "second")[side]))
            if told is not None and run % 100 == 0:
                told(side * runs + run, 2 * runs)
    scores = {"frequencies": _frequencies(*outputs)}
    rows = [_rows(side) for side in outputs]
    if rows[0] is not None and rows[1] is not None and (rows[0].shape[1] or rows[1].shape[1]):
        if rows[0].shape != rows[1].shape:
            raise fail(
                "mechanism", f"{rows[0].shape[1]} and {rows[1].shape[1]} numbers", "to return as many numbers on both data sets",
                "Return a fixed number of them, or a text.",
            )  # fmt: skip
        scores["a classifier"] = _log_odds(rows[0], rows[1])
    one, delta = 1 - (1 - confidence) / len(scores), budget.delta
    how: dict[str, Any] = {"knowledge": _KNOWS, "delta": delta, "confidence": one, "policy": Split()}
    found = tuple(audit_runs(*both, name=name, **how) for name, both in scores.items())
    name = getattr(mechanism, "__name__", type(mechanism).__name__)
    return Audit(name, "the record in which both data sets differ", budget.epsilon, delta, confidence, found)


def _taught(count: int) -> NDArray[np.bool_]:
    return np.arange(count) % _TAUGHT == 0


def _run(mechanism: Callable[[Any], Any], data: Any, which: str) -> Read:
    """Call a mechanism on a copy of the data, and read at once what it returns: it may change both later."""
    given = deepcopy(data)
    try:
        output = mechanism(given)
    except Exception as error:  # whatever code of others raises
        raise InputError(
            f"Expected mechanism to return on both data sets, but it raised {type(error).__name__} on the {which} one. Whoever "
            "sees an error learns from it: catch it, and return what others would see."
        ) from error
    return read_output(output)


def _frequencies(first: list[Read], second: list[Read]) -> tuple[Floats, Floats]:
    """Score the runs that did not teach by how often those that did returned the same."""
    kinds = [[output[0] for output in side] for side in (first, second)]
    taught = _taught(len(first))
    counts: dict[Hashable, list[float]] = {}
    for at, side in enumerate(kinds):
        for key, teaches in zip(side, taught.tolist(), strict=True):
            if teaches:
                counts.setdefault(key, [0.5, 0.5])[at] += 1
    one, other = (
        np.array([float(np.log(np.divide(*counts.get(key, (1.0, 1.0))))) for key in side])[~taught] for side in kinds
    )
    return one, other


def _rows(outputs: list[Read]) -> Floats | None:
    """Return the numbers of outputs as rows of finite numbers, or None if some hold more of them than others."""
    numbers = [output[1] for output in outputs]
    if len({len(one) for one in numbers}) > 1:
        return None
    return np.nan_to_num(np.array(numbers), nan=-_LARGE, posinf=_LARGE, neginf=-_LARGE)


def _log_odds(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Teach boosted trees to tell the two sides apart by their rows, and score the runs that did not teach."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    taught = _taught(len(first))
    rows, sides = np.concatenate([first[taught], second[taught]]), np.repeat([1, 0], int(taught.sum()))
    if (rows == rows[0]).all():
        return np.zeros(int((~taught).sum())), np.zeros(int((~taught).sum()))
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, early_stopping=False, random_state=0)
    model.fit(rows, sides)
    one, other = (model.decision_function(side[~taught]).astype(np.float64) for side in (first, second))
    return one, other
