"""The page about a run of statistics: numbers with intervals that follow from the releases, a heat map of groups, degrees."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from report_samples import HOSTILE, assert_sound

import sfumato as sf
from sfumato.report import citations, public_page, read_run, reviewer_page, run_page
from sfumato.report._statistics import degree_figure, statistics_sections
from sfumato.statistics import Statistics, describe

GRAPH = sf.graph.campus(300, seed=0)
EDGE = sf.EdgeLevel(directed=False)


def fitted(method=None, graph=GRAPH, unit=EDGE):
    method, budget = method or Statistics(), sf.Budget(2.0, 1e-6) if unit.private else None
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder, made = tmp_path_factory.mktemp("statistics") / "run", fitted()
    made.save(folder)
    return replace(read_run(folder), described=describe(made))


def keys(page):
    return [part.get("aria-labelledby") for part in ElementTree.fromstring(page).find(".//main").findall("section")]


def test_the_guarantee_stands_on_top(run):
    page = run_page(run)
    assert_sound(page)
    assert keys(page) == ["guarantee", "answers", "released"]
    for words in (
        "and nothing else",
        "Each interval holds its number in at least 95 % of all runs",
        "number of edges",
        "2004",
    ):
        assert words in page
    assert "follow from release/ alone" in page
    assert "Not covered by the guarantee" not in page


def test_reviewers_see_the_numbers_too(run):
    page = reviewer_page(run, "VALID")
    assert_sound(page)
    assert "What the graph looks like" in page
    assert "nissim2007smooth" in citations(run.certificate, run.graph)


def test_the_page_for_the_public_speaks_of_no_model(run):
    page = public_page(run)
    assert_sound(page)
    text = " ".join(ElementTree.fromstring(page).find(".//main").itertext())
    assert "this release" in text.lower()
    assert not re.findall(r"\bmodels?\b", text)
    record = {"product": "A model village", "contact": "model@example.org"} | dict.fromkeys(
        ("curator", "publication_date", "description", "intended_use", "data_domain", "region", "implementation"), "-"
    )
    named = public_page(replace(run, certificate={**run.certificate, "deployment": record}))
    assert "A model village: what it can reveal" in named  # words of the publisher stay
    assert "model@example.org" in named


def test_groups_are_a_heat_map(run):
    parts = {part.key: part for part in statistics_sections(run.described)[0].parts if hasattr(part, "key")}
    matrix = next(part for part in parts["of-mixing"].parts if getattr(part, "heat", ()))
    assert matrix.columns[1:] == GRAPH.classes
    assert max(max(row) for row in matrix.heat) == 1
    assert len(matrix.rows) == len(GRAPH.classes)


def test_degrees_by_group_are_told_apart():
    found = describe(fitted(Statistics("degrees", grouped=True)))
    figure = degree_figure("degrees", found.answers, "95 %")
    assert figure is not None
    assert "nodes of 2004 of degree 3 to 4" in figure.description
    assert "stroke" in figure.svg
    assert degree_figure("edges", describe(fitted(Statistics("edges"))).answers, "95 %") is None


def test_names_of_groups_are_text(run):
    graph = GRAPH.changed(classes=("plain", HOSTILE.replace("\x00", "")[:60], *GRAPH.classes[2:]))
    page = run_page(replace(run, described=describe(fitted(Statistics("mixing,degrees", grouped=True), graph))))
    assert_sound(page)


def test_without_privacy_nothing_may_leave(run):
    exact = fitted(unit=sf.NoPrivacy())
    page = run_page(replace(run, certificate=dict(exact.certificate.values), described=describe(exact)))
    assert "nothing may leave" in page
    assert "follow from release/ alone" not in page
