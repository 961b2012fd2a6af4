import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import InputError
from sfumato.privacy.units import (
    ClassLevel,
    Declared,
    EdgeLevel,
    LinkLevel,
    LocalLevel,
    NodeLevel,
    NoPrivacy,
    RecordLevel,
    SubclassLevel,
    class_for,
    unit_from_dict,
    unit_named,
    unit_to_dict,
)

UNITS = st.one_of(
    st.just(NoPrivacy()),
    st.builds(EdgeLevel, directed=st.booleans()),
    st.builds(
        NodeLevel,
        max_out_degree=st.one_of(st.none(), st.integers(1, 10**6)),
        arcs=st.sampled_from(["owned", "incident"]),
        relation=st.sampled_from(["remove", "replace"]),
    ),
    st.builds(RecordLevel, relation=st.sampled_from(["add-remove", "replace"])),
    st.builds(ClassLevel, relation=st.sampled_from(["replace", "add-remove"])),
    st.builds(
        SubclassLevel,
        cells=st.integers(1, 10**6),
        partition=st.sampled_from(["directions", "centroids", "declared"]),
        relation=st.sampled_from(["replace", "add-remove"]),
    ),
    st.sampled_from([LocalLevel(), LocalLevel(features=False), LocalLevel(labels=False), LinkLevel()]),
)


@given(UNITS)
def test_round_trip_through_json(unit):
    assert unit_from_dict(json.loads(json.dumps(unit_to_dict(unit)))) == unit


@given(UNITS)
def test_written_units_name_themselves_and_their_relation(unit):
    written = unit_to_dict(unit)
    assert written["name"] == unit.name
    assert written["relation"] == unit.relation
    assert unit.describe()


def test_an_undirected_edge_is_two_arcs():
    assert EdgeLevel(directed=True).arcs_per_record == 1
    assert EdgeLevel(directed=False).arcs_per_record == 2


def test_labels_and_features_are_public_at_edge_level_only():
    assert {"features", "labels"} <= set(EdgeLevel(directed=True).public)
    assert "arcs" not in EdgeLevel(directed=True).public
    for unit in (NodeLevel(), RecordLevel(), ClassLevel(), SubclassLevel(3)):
        assert set(unit.public) == {"node_ids", "roles"}


@pytest.mark.parametrize(
    ("unit", "public", "words"),
    [
        (LocalLevel(), set(), "one user's features and label, from everyone, the server too"),
        (LocalLevel(labels=False), {"labels"}, "one user's features, from everyone, the server too"),
        (LocalLevel(features=False), {"features"}, "one user's label, from everyone, the server too"),
    ],
)
def test_links_are_public_locally_and_so_is_what_is_read_in_the_clear(unit, public, words):
    assert set(unit.public) == {"node_ids", "roles", "arcs"} | public
    assert unit.describe() == words
    assert unit_named("local", Declared(True)) == LocalLevel()


def test_links_are_all_that_is_kept_at_link_level():
    assert set(LinkLevel().public) == set(NoPrivacy().public) - {"arcs"}
    assert LinkLevel().describe() == (
        "one bit of one user's neighbor list, from everyone, the server too; a relationship that both ends report costs twice "
        "the epsilon"
    )
    assert unit_named("link", Declared(True)) == LinkLevel()


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: EdgeLevel(directed="yes"), "directed"),
        (lambda: NodeLevel(max_out_degree=0), "max_out_degree"),
        (lambda: NodeLevel(max_out_degree=True), "max_out_degree"),
        (lambda: NodeLevel(arcs="some"), "arcs"),
        (lambda: NodeLevel(relation="add-remove"), "relation"),
        (lambda: RecordLevel(relation="remove"), "relation"),
        (lambda: ClassLevel(relation="remove"), "relation"),
        (lambda: SubclassLevel(3, relation="remove"), "relation"),
        (lambda: SubclassLevel(0), "cells"),
        (lambda: SubclassLevel(True), "cells"),
        (lambda: SubclassLevel(3, "k-means"), "partition"),
        (lambda: LocalLevel(features=False, labels=False), "features"),
        (lambda: LocalLevel(labels="yes"), "labels"),
        (lambda: unit_from_dict({"name": "household"}), "unit"),
        (lambda: unit_from_dict({}), "unit"),
        (lambda: EdgeLevel(directed=False).check_fit(True), "unit"),
        (lambda: NodeLevel(7, arcs="incident").check_fit(True), "max_out_degree"),
    ],
)
def test_errors_name_the_argument(make, named):
    with pytest.raises(InputError, match=f"Expected {named} to be"):
        make()


def test_all_incident_arcs_have_a_word_of_their_own_and_no_cap():
    declared = Declared(directed=False, max_degree=7)
    assert unit_named("node-incident", declared) == NodeLevel(arcs="incident")
    assert unit_named("node", declared) == NodeLevel(max_out_degree=7)
    assert "node-incident" not in class_for("node-incident").takes_max_degree


def test_classes_and_cells_have_words_and_say_what_they_leave_open():
    assert unit_named("class", Declared(False)) == ClassLevel()
    assert unit_named("subclass", Declared(False)) == SubclassLevel(50)
    assert unit_named("subclass", Declared(False, cells=4, partition="declared")) == SubclassLevel(4, "declared")
    assert (
        SubclassLevel(4, "declared").describe() == "all records of any one cell: 4 cells that a public column declares"
    )
    assert "is not protected: if the cells were computed" in SubclassLevel(4, "declared").caveats(False)[0]
    assert "the claim does not hold" in SubclassLevel(4, "centroids").caveats(False)[0]
    assert all("changes two" in unit.caveats(False)[0] for unit in (ClassLevel(), SubclassLevel(4)))
