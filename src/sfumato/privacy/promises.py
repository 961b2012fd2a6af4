r"""Promises that hold but say little: what is implausible about a plan, as far as public facts show it.

:func:`implausible` reads the claim, the unit, the settings, and facts that are public under that unit
(:class:`~sfumato.graph._graph.PublicFacts`). Nothing is said about what would need
protected data: the number of arcs at edge and node level, training nodes by class at node level. Each finding has a
stable code. It is a warning when a plan is made, and a caveat of its certificate. The verifier has a copy
(``verify/_caveats.py``).

**Classes against the budget.** A class is hidden if its share of what is learned is less than one standard deviation of the
noise that the whole budget allows. Let m = num_train / num_classes.

* *Units node and record.* One noisy count of the m training nodes of a class. Noise of deviation m or less costs more
  than (epsilon, delta): the delta of the Gaussian mechanism at :math:`\mu = 1 / m` (of ``replace`` 2 / m) exceeds the claim's.
* *Unit edge*, where features and labels are public. One row a node holds :math:`s = d\,t` labels, d the promised mean degree
  and t the share of training nodes. The mean row of a class has noise smaller by :math:`\sqrt m`: the same test at
  :math:`\mu = 1 / (s \sqrt m)`. Without a promise nothing is said.
* *Unit local* with protected labels. A class is counted from n = num_train reports about k classes at epsilon_y. The better of
  k-ary randomized response and subset selection leaves a deviation of about :math:`\sqrt{n v}`,
  :math:`v = \min(4 e^\epsilon, e^\epsilon + k - 2) / (e^\epsilon - 1)^2` (Wang et al., 2017; Ye and Barg, 2018).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import SfumatoWarning
from sfumato.privacy.accounting import gaussian_log_delta

if TYPE_CHECKING:
    from sfumato.privacy.units import Unit

MOST_DELTA = 1e-3
"""Delta is the probability with which nothing is promised. The custom is delta far below 1 / n (Dwork and Roth, 2014, section
2.3); one in a thousand is too often for one record, however few there are."""
MOST_EPSILON = 10.0
"""e^10 is 22,026: whoever sees the release may be that many times surer of any conclusion about a record."""
FEW_NODES = 50
"""The default split tests on 15 % of the nodes and validates on 10 %: below 50 nodes these are fewer than 8 and 5."""
MOST_CLASSES = 100
"""The data sets that this library is tested on have 2 to 70 classes."""
LEAST_PER_CLASS = 10
"""Training nodes a class, on average; the smallest split in common use, Planetoid's, has 20."""
LEAST_DEGREE = 0.5
"""Arcs a node, on average: with independent arcs more than 60 % of the nodes (e^-0.5) have none."""


class Caveat(NamedTuple):
    """A warning about a plan: a stable code, and a sentence that says what to do.

    >>> Caveat("few-nodes", "The graph has 4 nodes.").code
    'few-nodes'
    """

    code: str
    text: str


def implausible(
    unit: Unit,
    claim: Mapping[str, float | None],
    facts: Mapping[str, Any],
    settings: Mapping[str, Any],
    learns: bool = True,
    reads_links: bool = True,
) -> tuple[Caveat, ...]:
    """Return what is implausible about a plan, as far as public facts show it. No data is read.

    Args:
        unit: the privacy unit, which decides which facts may be there.
        claim: ``epsilon`` and ``delta``; both None without privacy.
        facts: facts that are public under ``unit``.
        settings: the settings of the method.
        learns: False if the weights come from another run and only links are aggregated.
        reads_links: False if the method uses no graph.

    >>> from sfumato.privacy.units import EdgeLevel
    >>> facts = {"num_nodes": 3000, "num_train": 2250, "num_classes": 6}
    >>> [caveat.code for caveat in implausible(EdgeLevel(directed=False), {"epsilon": 1.0, "delta": 0.5}, facts, {})]
    ['delta-per-record', 'delta-large']
    """
    epsilon, delta = claim["epsilon"], claim["delta"]
    cells = unit.num_cells(facts["num_classes"])
    persons = facts.get("num_persons")
    records, noun = (cells, "cells") if cells else (persons, "persons") if persons else (facts["num_nodes"], "nodes")
    found = [*weak(epsilon, delta, records, noun)]
    if learns and facts["num_nodes"] < FEW_NODES:
        text = f"The graph has {facts['num_nodes']} nodes, fewer than {FEW_NODES}: too few to learn from and to measure an "
        found.append(Caveat("few-nodes", text + "accuracy on. Collect more."))
    if reads_links:
        found += _links(facts)
    if learns and facts["num_classes"] and not facts.get("target"):
        found += [*_classes(facts), *_hidden(unit, epsilon, delta, facts, settings)]
    return (*found, *_given(facts))


def weak(
    epsilon: float | None, delta: float | None, records: int | None = None, noun: str = "records"
) -> Iterator[Caveat]:
    """Yield what makes the claim itself weak: a large epsilon, or a delta that is too large.

    Args:
        epsilon: the claimed epsilon; None without privacy.
        delta: the claimed delta; None without privacy.
        records: a public number that stands for the number of records; None if there is none.
        noun: what ``records`` counts, for the message.

    >>> [caveat.code for caveat in weak(16.0, 1e-6)]
    ['epsilon-large']
    """
    advice = "Choose delta far below 1 / (number of records), such as 1e-7."
    if delta and records and delta >= 1 / records:
        text = f"delta = {delta:g} is not below 1 / {records} (the number of {noun}): telling one record in full would keep "
        yield Caveat("delta-per-record", text + f"the promise. {advice}")
    if delta and delta > MOST_DELTA:
        text = (
            f"delta = {delta:g} exceeds {MOST_DELTA:g}: it is the probability with which nothing is promised. {advice}"
        )
        yield Caveat("delta-large", text)
    if epsilon and epsilon > MOST_EPSILON:
        text = f"The claimed epsilon exceeds {MOST_EPSILON:g}: a conclusion about one record may become e^epsilon times as "
        yield Caveat("epsilon-large", text + "likely. Choose a smaller epsilon; 1 is a common choice.")


def _links(facts: Mapping[str, Any]) -> Iterator[Caveat]:
    """Warn of few arcs. Where arcs are protected, only a promised mean degree can tell."""
    arcs, promised = facts.get("num_arcs"), facts.get("mean_degree")
    degree = promised if arcs is None else arcs / facts["num_nodes"]
    if degree is not None and degree < LEAST_DEGREE:
        text = (
            f"A node has {degree:.3g} arcs on average{' as promised' * (arcs is None)}: most nodes have no neighbor to "
        )
        yield Caveat("few-arcs", text + "learn from. Check the edge table, its columns and its direction, or take mlp.")


def _classes(facts: Mapping[str, Any]) -> Iterator[Caveat]:
    classes, train = facts["num_classes"], facts["num_train"]
    if classes > MOST_CLASSES or classes * LEAST_PER_CLASS > train:
        text = f"The label has {classes} values for {train} training nodes: is this column an id or a number? Name a column "
        yield Caveat("many-classes", text + "of few classes, or merge values.")
    if facts.get("untrained_classes"):
        text = f"{facts['untrained_classes']} of {classes} classes have no training node, so nothing is learned about them. "
        yield Caveat("untrained-class", text + "Check roles and labels, or drop these classes.")


def _hidden(
    unit: Unit, epsilon: float | None, delta: float | None, facts: Mapping[str, Any], settings: Mapping[str, Any]
) -> Iterator[Caveat]:
    classes, train = facts["num_classes"], facts["num_train"]
    each, asked, hidden = train / classes, settings.get("epsilon_y"), False
    if unit.trust == "local":
        hidden = bool(asked and "labels" not in unit.public and _drowns(asked, each, classes))
    elif epsilon and delta:
        degree = (facts.get("mean_degree") or 0.0) * train / facts["num_nodes"]
        alone = each / (2 if unit.relation == "replace" else 1)
        evidence = degree * math.sqrt(each) if "labels" in unit.public else alone
        hidden = evidence > 0 and gaussian_log_delta(1 / evidence, epsilon) > math.log(delta)
    if hidden:
        text = (
            f"With {each:.3g} training nodes a class, what a class adds is below one standard deviation of the noise: "
        )
        remedy = "Merge classes, raise epsilon, or train on more nodes."
        yield Caveat("hidden-classes", text + f"{classes} classes can hardly be told apart. {remedy}")


def _given(facts: Mapping[str, Any]) -> Iterator[Caveat]:
    """Warn of roles that were not drawn over ids, where labels are protected."""
    if "roles" in facts.get("assumed", ()):
        text = "The roles were given, not drawn here over ids, and are assumed public. If labels decided them, as where every "
        text += "class has 20 training nodes, then roles and the other labels tell a label, whatever is claimed. "
        yield Caveat("given-roles", text + "Check how they were made, or draw them: --split 75/10/15, with_split().")


def _drowns(epsilon: float, each: float, classes: int) -> bool:
    """Whether m is below sqrt(n v), with n = k m."""
    grown = math.exp(min(epsilon, 100.0))
    return each * (grown - 1) ** 2 < classes * min(4 * grown, grown + classes - 2)


def warn(caveats: Iterable[Caveat]) -> None:
    """Give each caveat to Python's warnings, on behalf of the caller who calibrates.

    >>> with warnings.catch_warnings(record=True, action="always") as told:
    ...     warn(weak(1.0, 0.5))
    >>> str(told[0].message)[:11], told[0].category.__name__
    ('delta-large', 'SfumatoWarning')
    """
    for code, text in caveats:
        warnings.warn(f"{code}: {text}", SfumatoWarning, stacklevel=4)
