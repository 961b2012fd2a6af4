"""Facts belong to a unit: no method takes those of another, and no plan holds one that is private under its own."""

from dataclasses import fields, replace

import pytest

import sfumato as sf
from sfumato.catalog import METHODS, PAIR_METHODS, method_named
from sfumato.central.tuned import Tuned
from sfumato.errors import InputError, UnsupportedUnitError
from sfumato.graph.graph import PublicFacts
from sfumato.graph.synthetic import stochastic_block_model
from sfumato.method import checks
from sfumato.privacy.units import UNITS

BUDGET = sf.Budget(epsilon=2.0, delta=1e-6)
FORMS = [form for unit in UNITS for forms in unit.forms().values() for form in forms]
FORMS += [sf.NodeLevel(5), sf.LocalLevel(features=False), sf.LocalLevel(labels=False)]
GRAPH = stochastic_block_model(60, 3, mean_degree=8, num_features=144, seed=1).with_split(seed=0)
GRAPH = replace(GRAPH, max_degree=40, image_shape=(1, 12, 12))
FACTS = {unit: GRAPH.public_facts(unit) for unit in FORMS}
NAMES = [*METHODS, *PAIR_METHODS]


def entries():
    """Every entry of the catalog, and what wraps one."""
    methods = {name: method_named(name) for name in NAMES} | {"auto": sf.Auto()}
    return methods | {"tuned gap": Tuned((sf.GAP(num_hops=1), sf.GAP(num_hops=2)))}


def planned(method, unit, facts):
    return method.calibrate(BUDGET if unit.trust == "curator" and unit.private else None, unit, facts)


@pytest.mark.parametrize("name", entries())
def test_facts_of_any_other_unit_are_refused(name):
    method = entries()[name]
    for unit in FORMS:
        for other in FORMS:
            if other != unit and not (name == "tuned gap" and not unit.private):
                with pytest.raises(InputError, match="Expected public facts that were made for"):
                    planned(method, unit, FACTS[other])


def plans():
    for method in entries().values():
        for unit in FORMS if method.unit is None else (method.unit,):
            try:
                yield planned(method, unit, FACTS[unit])
            except (UnsupportedUnitError, InputError):
                continue


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


@pytest.fixture(scope="module")
def trained():
    unit = sf.NodeLevel(5)
    plan = sf.LabelMessages().calibrate(BUDGET, unit, FACTS[unit])
    return plan.fit(GRAPH)


class TestInference:
    """On another graph the same rules hold."""

    OTHER = replace(
        stochastic_block_model(50, 3, mean_degree=8, num_features=144, seed=2), max_degree=40, image_shape=(1, 12, 12)
    )

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
