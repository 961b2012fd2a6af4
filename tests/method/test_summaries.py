"""Plans, fitted models, certificates and graphs in a few lines, and as tables of a notebook."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest

import sfumato as sf
from sfumato.graph._synthetic import stochastic_block_model

UNIT = sf.EdgeLevel(directed=False)


@pytest.fixture(scope="module")
def graph():
    made = stochastic_block_model(80, 2, mean_degree=10, num_features=3, seed=0)
    return replace(made, name="<script>alert(1)</script>")


@pytest.fixture(scope="module")
def fitted(graph):
    plan = sf.LabelMessages().calibrate(sf.Budget(1, 1e-6), UNIT, graph.public_facts(UNIT))
    return plan.fit(graph)


def test_each_prints_a_few_lines_with_the_claim(fitted):
    for shown in (fitted.plan, fitted, fitted.certificate):
        lines = repr(shown).splitlines()
        assert lines[0] == type(shown).__name__
        assert "  cost: epsilon = 1, delta = 1e-06" in lines
        assert "  protects: the presence of any one undirected edge" in lines
        assert len(lines) < 8
        assert len(repr(shown)) < 600


def test_tables_of_a_notebook_are_escaped(fitted, graph):
    for shown in (fitted.plan, fitted, fitted.certificate, graph):
        table = shown._repr_html_()
        assert "<script" not in table
        assert ElementTree.fromstring(table).tag == "table"
        assert len(table) < 1500
    assert "&lt;script&gt;" in graph._repr_html_()
    assert "&lt;script&gt;" in fitted._repr_html_()


def test_a_notebook_shows_what_the_cost_means_and_what_next(fitted):
    plan, fit, certificate = (shown._repr_html_() for shown in (fitted.plan, fitted, fitted.certificate))
    for table in (plan, fit, certificate):
        assert (
            '<meter min="50" max="100" value="73.2"></meter> a guess whether it is in the data is right at most'
            in table
        )
    assert "<th>next</th><td><code>fitted = plan.fit(graph)</code>, which spends it</td>" in plan
    assert "<code>fitted.evaluate(graph)</code>" in fit


def test_without_privacy_that_is_said(graph):
    plan = sf.LabelMessages().calibrate(None, sf.NoPrivacy(), graph.public_facts(sf.NoPrivacy()))
    assert "  cost: no privacy" in repr(plan).splitlines()
    assert "meter" not in plan._repr_html_()
    assert "spends" not in plan._repr_html_()
    assert "  cost: no privacy" in repr(plan.fit(graph).certificate).splitlines()


@pytest.mark.parametrize(("unit", "train"), [(UNIT, 30), (sf.NodeLevel(), 60)])
def test_nodes_without_a_label_train_only_where_that_hides_who_has_none(graph, unit, train):
    half = replace(graph, y=[label if row % 2 else -1 for row, label in enumerate(graph.y)], classes=("0", "1"))
    method = sf.LabelMessages() if unit == UNIT else sf.catalog.method_named("linear")
    fitted = method.calibrate(sf.Budget(8, 1e-6), unit, half.public_facts(unit)).fit(half)
    assert fitted.certificate.values["public_facts"]["num_train"] == train
