"""Facts belong to a unit: no method takes those of another, and no plan holds one that is private under its own."""

import json
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest
from contracts_quick import FACTS, FORMS, entries, pixels, planned, plans
from contracts_quick import SMALL as GRAPH

import sfumato as sf
from sfumato.catalog import METHODS
from sfumato.errors import InputError
from sfumato.evaluation._request import on_graph
from sfumato.graph._graph import PublicFacts
from sfumato.method import _checks as checks
from sfumato.record.ledger import canonical_json
from sfumato.tables._newcomers import Newcomers
from sfumato.verify import verify

BUDGET = sf.Budget(epsilon=2.0, delta=1e-6)


@pytest.mark.parametrize("name", entries())
def test_facts_of_any_other_unit_are_refused(name):
    method = entries()[name]
    for unit in FORMS:
        for other in FORMS:
            if other != unit and not (name == "tuned gap" and not unit.private):
                with pytest.raises(InputError, match="Expected public facts that were made for"):
                    planned(method, unit, FACTS[other])


def test_no_plan_holds_a_fact_that_is_private_under_its_unit():
    """Whatever a plan states of arcs or labels, its unit leaves public; and no way to change a plan leads around that."""
    seen = set()
    for plan in plans():
        seen |= {(plan.method.name, plan.unit.name)}
        assert plan.public.unit == plan.unit
        assert plan.public.num_arcs is None or "arcs" in plan.unit.public
        assert plan.public.untrained_classes is None or "labels" in plan.unit.public
        other = FORMS[FORMS[0] == plan.unit]
        for change in ({"public": FACTS[other]}, {"unit": other}):
            with pytest.raises(InputError, match="Expected public facts that were made for"):
                replace(plan, **change)
    assert {(name, unit) for name in METHODS for unit in METHODS[name].card.units} <= seen


@pytest.mark.parametrize("unit", [None, *FORMS], ids=str)
def test_private_facts_can_be_written_under_no_unit(unit):
    """Not by hand, and not by changing facts that were made."""
    told = () if unit is None else unit.public
    for name, part in (("num_arcs", "arcs"), ("untrained_classes", "labels")):
        made = [lambda fact: PublicFacts(60, 45, 144, 3, False, unit=unit, **fact)]
        made += [
            lambda fact: replace(
                FACTS[sf.NoPrivacy()], unit=unit, **{**{"num_arcs": None, "untrained_classes": None}, **fact}
            )
        ]
        for make in made:
            if part in told:
                assert getattr(make({name: 2}), name) == 2
            else:
                with pytest.raises(InputError, match=f"Expected public facts without {name} "):
                    make({name: 2})


def test_a_unit_is_a_unit():
    with pytest.raises(InputError, match="Expected unit to be a unit"):
        PublicFacts(60, 45, 4, 3, False, unit="edge")


def test_every_fact_of_a_plan_is_compared_with_the_graph():
    """A new fact has to be put into one of the lists, or a certificate could state another than that of the graph."""
    compared = [*checks._ALWAYS, *checks._OF_LABELS, *checks._IF_STATED]
    assert sorted([*compared, "assumed", "unit"]) == sorted(one.name for one in fields(PublicFacts))


LIES = {
    "num_nodes": 61, "num_train": 44, "num_features": 143, "num_classes": 4, "max_degree": 41, "mean_degree": 7.5,
    "untrained_classes": 1, "num_arcs": 2, "degree_bounds": True, "max_weight": 2.0, "image_shape": (1, 9, 16),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_a_fit_refuses_facts_that_are_not_those_of_the_graph(lie):
    unit = sf.NoPrivacy()
    method = sf.GAP(num_hops=1, epochs=1)
    plan = method.calibrate(None, unit, replace(FACTS[unit], **{lie: LIES[lie]}))
    with pytest.raises(sf.errors.DataError, match=f"Expected a graph with {lie}="):
        plan.fit(GRAPH)


def test_the_plan_of_another_seed_states_its_own_counts():
    """Roles of another seed may leave a class without a training node, and other links may be held out."""
    unit = sf.EdgeLevel(directed=False)
    other = GRAPH.with_roles(np.where((GRAPH.y > 0) & (np.cumsum(GRAPH.y > 0) <= 45), 0, 2))
    first = replace(GRAPH, roles=np.r_[np.zeros(45, int), np.full(15, 2)])
    plan = sf.GAP(num_hops=1, epochs=1).calibrate(BUDGET, unit, first.public_facts(unit))
    again = on_graph(plan, other)
    assert (plan.public.untrained_classes, again.public.untrained_classes) == (0, 1)
    assert replace(again, public=plan.public) == plan
    node = sf.LabelMessages().calibrate(BUDGET, sf.NodeLevel(5), FACTS[sf.NodeLevel(5)])
    assert on_graph(node, other) is node


@pytest.fixture(scope="module")
def trained():
    unit = sf.NodeLevel(5)
    plan = sf.LabelMessages().calibrate(BUDGET, unit, FACTS[unit])
    return plan.fit(GRAPH)


class TestInference:
    """On another graph the same rules hold."""

    OTHER = replace(pixels(50, 2), roles=None)

    def test_facts_of_another_unit_are_refused(self, trained):
        for other in FORMS:
            if other != trained.plan.unit:
                with pytest.raises(InputError, match="Expected public facts that were made for"):
                    trained.calibrate_inference(BUDGET, trained.plan.unit, self.OTHER.public_facts(other))

    @pytest.mark.parametrize("lie", [{"num_train": 30}, {"max_degree": 30}, {"num_classes": 0, "num_train": 0}])
    def test_a_fit_compares_what_the_plan_states(self, trained, lie):
        facts = replace(self.OTHER.public_facts(trained.plan.unit), **lie)
        gap = sf.GAP(num_hops=1, epochs=1).calibrate(BUDGET, trained.plan.unit, FACTS[trained.plan.unit]).fit(GRAPH)
        plan = gap.calibrate_inference(BUDGET, trained.plan.unit, facts)
        with pytest.raises(sf.errors.DataError, match=f"Expected a graph with {list(lie)[-1]}="):
            plan.fit(self.OTHER)

    def test_a_fit_lists_what_the_other_graph_assumes(self, trained):
        other = replace(self.OTHER, assumed_public=("num_features",))
        plan = trained.calibrate_inference(BUDGET, trained.plan.unit, self.OTHER.public_facts(trained.plan.unit))
        with pytest.raises(sf.errors.DataError, match="assumes no more to be public"):
            plan.fit(other)


class TestRoles:
    """Where labels are protected roles are public only if labels did not decide them, which a draw over ids alone shows."""

    GIVEN = GRAPH.with_roles(np.arange(60) % 3)
    PRIVATE = tuple(unit for unit in FORMS if "labels" not in unit.public)

    @pytest.mark.parametrize("unit", FORMS, ids=str)
    def test_roles_that_were_given_are_assumed_public(self, unit):
        expected = ("roles",) if unit in self.PRIVATE else ()
        assert self.GIVEN.public_facts(unit).assumed == expected
        assert GRAPH.with_roles(GRAPH.roles.copy()).public_facts(unit).assumed == expected, (
            "whoever gave them may know more"
        )
        assert replace(GRAPH, roles=GRAPH.roles.copy()).public_facts(unit).assumed == (), "the roles that were drawn"
        assert GRAPH.with_split(labeled=True).public_facts(unit).assumed == expected, (
            "who has a label is a label's fact"
        )
        for drawn in (GRAPH, replace(GRAPH, name="other"), replace(GRAPH, roles=None)):
            assert (drawn.public_facts(unit).assumed, drawn.public_facts(unit).split) in (
                ((), None),
                ((), (0.75, 0.1, 0.15)),
            )

    def test_other_fractions_are_stated_where_labels_are_protected(self):
        drawn = GRAPH.with_split((0.6, 0.2, 0.2))
        for unit in FORMS:
            facts = drawn.public_facts(unit)
            assert facts.num_train == 36
            assert facts.split == ((0.6, 0.2, 0.2) if unit in self.PRIVATE else None)

    def test_a_plan_for_drawn_roles_refuses_given_ones(self):
        unit = sf.NodeLevel(5)
        plan = sf.LabelMessages(epochs=1).calibrate(BUDGET, unit, FACTS[unit])
        plan.fit(GRAPH)
        with pytest.raises(sf.errors.DataError, match="assumes no more to be public than the plan"):
            plan.fit(GRAPH.with_roles(GRAPH.roles.copy()))
        with pytest.raises(sf.errors.DataError, match="Expected a graph with split=None"):
            plan.fit(GRAPH.with_split((0.75, 0.25, 0.0)))

    @pytest.mark.parametrize("roles", ["given", "drawn otherwise", "drawn"])
    def test_the_certificate_says_so_and_the_verifier_insists(self, roles, tmp_path):
        graph = {"given": self.GIVEN, "drawn otherwise": GRAPH.with_split((0.6, 0.2, 0.2)), "drawn": GRAPH}[roles]
        unit = sf.NodeLevel(5)
        fitted = sf.LabelMessages(epochs=1).calibrate(BUDGET, unit, graph.public_facts(unit)).fit(graph)
        values = fitted.certificate.values
        assert values["assumed_public"] == ["roles"] * (roles == "given")
        assert ("split" in values["public_facts"]) is (roles == "drawn otherwise")
        assert any("decided them" in text for text in values["caveats"]) is (roles == "given")
        run = fitted.save(tmp_path / "run")
        assert verify(run).problems == ()
        if roles != "drawn":
            for name in ("certificate", "spec"):
                edit(run, name)
            assert any("num_train: expected 45, as a draw over all ids gives" in text for text in verify(run).problems)


def edit(run, name):
    """Leave out of a file what it says of roles."""
    path = run / "release" / f"{name}.json"
    values = json.loads(path.read_text())
    facts, assumed = (values["public_facts"], values) if name == "certificate" else (values["public"], values["public"])
    facts.pop("split", None)
    assumed["assumed_public" if name == "certificate" else "assumed"] = []
    path.write_text(canonical_json(values) + "\n")


def test_roles_of_a_table_count_as_given():
    nodes = {"id": [0, 1, 2, 3], "y": ["a", "b", "a", "b"], "part": ["train", "train", "val", "test"]}
    edges = pa.table({"source": [0, 1], "target": [1, 2]})
    graph = sf.graph.from_frames(
        pa.table(nodes), edges, label="y", directed=False, schema={"role": "part", "classes": ["a", "b"]}
    )
    assert graph.public_facts(sf.NodeLevel(5)).assumed == ("roles",)
    assert graph.public_facts(sf.EdgeLevel(directed=False)).assumed == ()


def test_masks_of_another_tool_count_as_given():
    pytest.importorskip("torch_geometric.data")
    graph = sf.graph.from_pyg(sf.graph.to_pyg(GRAPH), directed=False, classes=GRAPH.classes)
    assert "roles" in graph.public_facts(sf.NodeLevel(5)).assumed


def test_roles_of_newcomers_are_all_the_same_and_tell_nothing():
    late = replace(GRAPH, node_ids=np.arange(100, 160), max_degree=None)
    facts = replace(Newcomers.join(late, [GRAPH], [0], [60]), nodes_per_person=None).public_facts(sf.NodeLevel(5))
    assert (facts.num_train, facts.split, facts.assumed) == (0, None, ())


def test_a_unit_that_bears_the_name_of_another_is_refused():
    class Open(sf.EdgeLevel):
        public = (*sf.EdgeLevel.public, "arcs")

    unit = Open(directed=False)
    with pytest.raises(InputError, match="got one of class Open"):
        sf.GAP().calibrate(sf.Budget(1.0, 1e-5), unit, GRAPH.public_facts(unit))
