"""What stands in the place of another argument is refused by its class; its value is never shown."""

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import InputError
from sfumato.graph import campus
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
