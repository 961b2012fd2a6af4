"""What stands in the place of another argument is refused by its class; its value is never shown."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import DataError, InputError
from sfumato.graph import campus, stochastic_block_model
from sfumato.local import LPGNN

GRAPH = campus(200)
UNIT = sf.EdgeLevel(directed=False)
FACTS = GRAPH.public_facts(UNIT)
BUDGET = sf.Budget(1.0, 1e-6)
TABLE = np.full((3, 2), 71)


@pytest.mark.parametrize("method", [sf.GAP(), sf.Auto(), LPGNN()])
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ((1.0, UNIT, FACTS), "Expected budget to be of class Budget, got float. Use sf.Budget"),
        ((BUDGET, "edge", FACTS), "Expected unit to be of class Unit, got str. Use a unit such as"),
        ((BUDGET, UNIT, GRAPH), "Expected public to be of class PublicFacts, got Graph. Use graph.public_facts"),
    ],
)
def test_a_plan_names_the_argument_that_is_of_another_class(method, asked, expected):
    with pytest.raises(InputError, match=expected):
        method.calibrate(*asked)


def test_a_table_is_no_graph_and_is_not_shown():
    plan = sf.LabelMessages().calibrate(sf.Budget(1.0, 0.0), UNIT, FACTS)
    fitted = plan.fit(GRAPH)
    for call in (plan.fit, fitted.predict, fitted.predict_proba):
        with pytest.raises(InputError, match=r"Expected graph to be of class Graph, got ndarray\. Make one") as raised:
            call(TABLE)
        assert "71" not in str(raised.value)


def test_a_graph_that_assumes_more_than_its_plan_is_refused():
    """Its certificate would not list what was read off protected data."""
    graph = stochastic_block_model(60, 3, mean_degree=8, num_features=4, seed=0).with_split(seed=0)
    unit, budget = sf.NodeLevel(max_out_degree=5), sf.Budget(2.0, 1e-6)
    assuming = replace(graph, assumed_public=("classes",))
    plan = sf.MLP(epochs=1).calibrate(budget, unit, graph.public_facts(unit))
    with pytest.raises(DataError, match=r"no more to be public.*'classes'"):
        plan.fit(assuming)
    listed = sf.MLP(epochs=1).calibrate(budget, unit, assuming.public_facts(unit))
    assert "classes" in listed.fit(assuming).certificate.values["assumed_public"]
    assert listed.fit(graph).certificate.values["assumed_public"]  # what is listed and not needed harms nobody
