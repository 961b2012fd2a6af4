"""A bound that has no proof under a unit is not stated under it, nor under a class below one that has."""

import pytest

import sfumato as sf
from sfumato.bounded._classes import check_cells
from sfumato.bounded._counting import count_sensitivity
from sfumato.bounded._grouping import group_sensitivity
from sfumato.bounded._occurrences import check_occurrences
from sfumato.bounded._pairs import pair_sensitivity
from sfumato.bounded._promise import promised_sensitivity
from sfumato.bounded._routing import routed_sensitivity
from sfumato.bounded._splits import check_groups
from sfumato.bounded._subgraphs import occurrences
from sfumato.bounded._topology import pairs_of
from sfumato.bounded.aggregation import affected_coordinates, hop_sensitivity
from sfumato.errors import UnsupportedUnitError

EDGE, ARC, NODE, INCIDENT = (
    sf.EdgeLevel(directed=False),
    sf.EdgeLevel(directed=True),
    sf.NodeLevel(),
    sf.NodeLevel(arcs="incident"),
)
REPLACED, RECORD, NONE = sf.NodeLevel(5, arcs="incident", relation="replace"), sf.RecordLevel(), sf.NoPrivacy()
HOPLESS = (INCIDENT, REPLACED, RECORD, sf.RecordLevel(relation="replace"), NONE)


def below(kind):
    """A class of a user's own, which inherits from a unit with a proof."""
    return type("Two", (kind,), {})


REFUSED = {
    "hops of releases": (lambda unit: hop_sensitivity(unit, released_messages=True), HOPLESS, "no bounded.*Use EdgeLevel"),
    "hops of others": (lambda unit: hop_sensitivity(unit, released_messages=False), HOPLESS, "no bounded.*Use EdgeLevel"),
    "coordinates of a hop": (lambda unit: affected_coordinates(unit, 10, 2), HOPLESS, "no bounded"),
    "routed hops": (routed_sensitivity, (INCIDENT, RECORD, NONE), "no bounded sensitivity"),
    "counts": (count_sensitivity, (NODE, INCIDENT, RECORD, sf.LocalLevel(), NONE), "no bounded sensitivity in L1 norm"),
    "groups": (group_sensitivity, (EDGE,), "more than one"),
    "sums over pairs": (
        pair_sensitivity, (ARC, sf.NodeLevel(3), RECORD, below(sf.EdgeLevel)(directed=False)),
        r"no proof.*Use EdgeLevel\(directed=False\)",
    ),
    "topologies": (lambda unit: pairs_of(unit, 5), (NODE, INCIDENT, RECORD, NONE), "has no proof"),
    "promised degrees": (promised_sensitivity, (EDGE, NODE, RECORD, below(sf.NodeLevel)(arcs="incident")), "no proof"),
    "losses of a record": (check_occurrences, (EDGE, RECORD, below(sf.NodeLevel)()), "bounded number of losses"),
    "sub-graphs": (lambda unit: occurrences(unit, 3, 1), (INCIDENT, EDGE, RECORD), "Sub-graphs have no proof"),
    "groups of a split": (check_groups, (EDGE, RECORD, below(sf.NodeLevel)()), "lie in one group"),
    "cells": (check_cells, (EDGE, NODE, NONE, below(sf.ClassLevel)()), "Use ClassLevel"),
}  # fmt: skip


@pytest.mark.parametrize(("bound", "units", "said"), REFUSED.values(), ids=REFUSED)
def test_units_without_a_proof_are_refused(bound, units, said):
    for unit in units:
        with pytest.raises(UnsupportedUnitError, match=said):
            bound(unit)
