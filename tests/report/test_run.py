"""The page about one run: the certificate in words, releases, and scores under their own heading."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from report_samples import HOSTILE, assert_sound

from sfumato.privacy import events
from sfumato.report import run_page
from sfumato.report._detail_figures import degree_figure, wilson
from sfumato.report._run_figures import projections, quantity, visible
from sfumato.report._words import event_words


def sections(page):
    """Text of each top section by its key."""
    main = ElementTree.fromstring(page).find(".//main")
    return {
        part.get("aria-labelledby"): " ".join(" ".join(part.itertext()).split()) for part in main.findall("section")
    }


def test_edge_level(edge_page):
    assert_sound(edge_page)
    parts = sections(edge_page)
    assert list(parts) == ["price", "guarantee", "released", "quantities", "evaluation"]
    assert (
        "Protects any one edge. Whoever sees the release learns at most epsilon = 1, delta = 1e-06 about it."
        in parts["guarantee"]
    )
    assert "sfumato verify runs/first" in parts["guarantee"]
    assert "5.5 times the L2 sensitivity" in parts["released"]
    assert "DP-SGD, 100 steps on Poisson samples with probability 0.01" in parts["released"]
    assert "Assumed public, and read from the data: num_features." in parts["released"]
    assert "PCA of aggregate/1, all 60 nodes" in parts["quantities"]
    assert "Predicted classes: a: " in parts["quantities"]
    for words in (
        "Not covered by the guarantee",
        "61.2",
        "43.5",
        "84.6",
        "60.0 to 63.0",
        "43 %",
        "encoder: from 1.5 to 1",
    ):
        assert words in parts["evaluation"]


def test_no_score_outside_evaluation(edge_page):
    parts = sections(edge_page)
    scores = re.compile(r"61\.2|0\.612|52\.3|43\.5|84\.6|60\.0|63\.0|1\.25\b|[Aa]ccuracy \d")
    for outside in ("price", "evaluation"):
        text = parts.pop(outside)
        assert scores.search(text)
        assert "Not covered by the guarantee" in text
    assert not any(scores.search(text) for text in parts.values())


def test_pages_repeat_themselves(edge_run, edge_page):
    assert run_page(edge_run) == edge_page


def test_node_level_shows_no_predictions(node_run, edge_page):
    parts = sections(run_page(node_run))
    assert "Predicted classes" in sections(edge_page)["quantities"]
    assert "Predicted classes" not in parts["quantities"]
    assert "for that node alone: no classes are shown" in parts["quantities"]
    assert "The node itself predictions that read" in parts["guarantee"]


def test_without_privacy_it_says_so(bare_run):
    page = run_page(bare_run)
    assert_sound(page)
    parts = sections(page)
    assert parts["guarantee"].startswith("The guarantee No privacy: this run was trained without any guarantee")
    assert "Nothing" in parts["released"]
    assert "quantities" not in parts
    assert "Covered by the guarantee" not in page


def test_without_evaluation_or_graph(edge_run):
    run = replace(edge_run, metrics=None, curves=None, predicted=None, detail=None, missing="The file is gone.")
    parts = sections(run_page(run))
    assert "Predicted classes are not shown: The file is gone." in parts["quantities"]
    assert "not shown: The file is gone." in parts["evaluation"]
    assert "holds no evaluation" in sections(run_page(replace(run, missing="")))["evaluation"]


def test_hostile_names_stay_text(edge_run):
    certificate = {**edge_run.certificate, "protects": HOSTILE, "notes": [HOSTILE], "settings": {HOSTILE: HOSTILE},
                   "candidates": [{"method": HOSTILE, "settings": {HOSTILE: HOSTILE}}]}  # fmt: skip
    page = run_page(
        replace(edge_run, classes=(HOSTILE, "_b", ""), graph=HOSTILE, folder=HOSTILE, certificate=certificate)
    )
    assert_sound(page)
    assert "<script" not in page
    assert page.count("alert(1)") > 5


def test_confusion_shares_shade_rows(edge_page):
    (matrix,) = (t for t in ElementTree.fromstring(edge_page).iter("table") if t.get("class") == "heat")
    assert [cell.get("style") for cell in list(matrix.iter("tr"))[1][1:]] == [
        "--share:0.833", "--share:0.167", "--share:0.000",
    ]  # fmt: skip


@pytest.mark.parametrize("low", [None, 0.44])
def test_no_share_is_told_of_a_difference_that_may_be_noise(edge_run, low):
    ceiling = {**edge_run.metrics["ceiling"], "low": low}
    page = run_page(replace(edge_run, metrics={**edge_run.metrics, "ceiling": ceiling}))
    assert "43 %" not in page
    assert "do not lie apart, so no share of their difference is told" in page


def test_parts_stand_beside_floor_and_ceiling_and_warnings_come_first(edge_page):
    text = sections(edge_page)["evaluation"]
    for words in (
        "Below the floor Class '<b>' is below its floor: by a lot.",
        "Recall: nodes of the class that are told it, %",
        "AUC of this run against the ceiling: -20.0 points in class c (14 nodes), the smallest; -20.0 points in class <b> (30",
        "Reliability of probabilities",
        "Nodes with the highest probability of class c, which 20.0 % have",
        "By <side>",
    ):
        assert words in text, words
    table = next(t for t in ElementTree.fromstring(edge_page).iter("table") if "Recall" in "".join(t.itertext()))
    rows = [["".join(cell.itertext()) for cell in row] for row in table.iter("tr")]
    assert rows[0] == ["Class", "Nodes", "Share, %", "Floor", "This run", "Ceiling"]
    assert [row[0] for row in rows[1:]] == ["c", "a", "<b>"]  # smallest first


def test_no_score_is_told_of_a_class_of_few_test_nodes(edge_run):
    classes = [{**row, "nodes": 9} if row["name"] == "c" else row for row in edge_run.detail["classes"]]
    page = run_page(replace(edge_run, detail={**edge_run.detail, "classes": classes}))
    text = sections(page)["evaluation"]
    assert "No scores are told of classes with fewer than 10 test nodes: c (9)." in text
    table = next(t for t in ElementTree.fromstring(page).iter("table") if "Recall" in "".join(t.itertext()))
    assert ["".join(row[0].itertext()) for row in table.iter("tr")] == ["Class", "a", "<b>"]
    none = [{**row, "nodes": 1} for row in classes]
    assert "Recall" not in run_page(replace(edge_run, detail={**edge_run.detail, "classes": none}))


def test_metrics_of_the_run_take_the_place_of_what_was_computed_again(edge_run):
    other = {**edge_run.detail, "warnings": ["Class 'a' is below its floor: said by train."]}
    run = replace(edge_run, metrics={**edge_run.metrics, "detail": other}, released={})
    text = sections(run_page(run))["evaluation"]
    assert "said by train" in text
    assert "by a lot" not in text


def test_a_run_alone_has_its_parts_too(edge_run):
    def alone(rows):
        return [{**row, "scores": {"run": row["scores"]["run"]}} for row in rows]

    found = edge_run.detail
    own = {
        **found,
        "classes": alone(found["classes"]),
        "degrees": alone(found["degrees"]),
        "groups": None,
        "warnings": [],
    }
    for part in ("reliability", "lift"):
        own[part] = {name: value for name, value in found[part].items() if name not in ("floor", "ceiling")}
    page = run_page(replace(edge_run, detail=own, released={}))
    assert_sound(page)
    text = sections(page)["evaluation"]
    assert "Below the floor" not in text
    assert "against the ceiling" not in text
    assert "Log-loss of this run" in text


def test_axes_start_where_differences_can_be_seen_and_say_so(edge_run):
    rows = edge_run.detail["degrees"]
    assert "(axis from" not in degree_figure(rows).svg  # from 0 on: intervals of few nodes
    many = [
        {
            **row,
            "nodes": 9000,
            "scores": {name: {"accuracy": 0.91 + 0.01 * at} for at, name in enumerate(row["scores"])},
        }
        for row in rows
    ]
    assert "(axis from 90)" in degree_figure(many).svg
    for values in ([91.1, 91.4], [50.0, 50.0], [0.0, 100.0], [99.9], [0.2, 0.4]):
        start, end = visible(values)
        assert 0 <= start <= min(values) <= max(values) <= end <= 100
        assert start < end


def test_wilson_interval():
    low, high = wilson(0.5, 10)
    assert (round(low, 4), round(high, 4)) == (0.2366, 0.7634)
    assert wilson(0.0, 10)[0] == pytest.approx(0, abs=1e-12)
    assert wilson(1.0, 10)[1] == pytest.approx(1)


def test_quantity_is_the_last_table_of_nodes():
    tables = {f"aggregate/{i}": np.ones((4, 3)) for i in (10, 9, 2)} | {"aggregate/11": np.zeros((4, 3))}
    assert quantity({**tables, "classifier": np.zeros(5)})[0] == "aggregate/10"
    assert quantity({"classifier": np.zeros(5), "narrow": np.ones((4, 1)), "edges": np.ones((9, 2))}) is None


def test_projections_sample_and_do_not_invent_structure():
    rows = np.zeros((9, 2))
    rows[:, 0] = np.arange(9) - 4.0
    (pca,) = projections("aggregate/1", rows, None, ())
    assert "100 % and 0 % of the variance" in pca.description
    assert "all 9 nodes" in pca.title


def test_large_tables_are_sampled(monkeypatch):
    monkeypatch.setattr("sfumato.report._run_figures.MOST_NODES", 20)
    rows = np.random.default_rng(0).normal(size=(50, 3))
    pca, tsne = projections("aggregate/1", rows, np.zeros(50, int), ("only",))
    assert "20 of 50 nodes" in pca.title
    assert "20 of 50 nodes" in tsne.title
    assert "only: 20" in pca.description


@pytest.mark.parametrize(
    "event",
    [
        events.PoissonGaussianEvent(0.1, 2.0, 5),
        events.RepeatedGaussianEvent(0.1, 3, 2.0, 5),
        events.LaplaceEvent(2.0),
        events.RandomizedResponseEvent(1.0, 4),
        events.ExponentialEvent(0.5, 3),
        events.PureEvent(0.5),
        events.ZCDPEvent(0.5),
        events.ComposedEvent((events.GaussianEvent(2.0),)),
        events.SelectionEvent(((events.GaussianEvent(5.0),), (events.GaussianEvent(7.0),)), "geometric", 10),
    ],
)
def test_every_event_has_words(event):
    words = event_words(event.to_dict())
    assert "type" not in words
    assert any(character.isdigit() for character in words)


def test_unknown_events_are_shown_as_they_are():
    assert event_words({"type": "new", "scale": 2}) == "scale 2, type new"
    assert event_words({"type": "gaussian", "count": 2}) == "count 2, type gaussian"
    inner = {"type": "pure", "epsilon": 0.5, "count": 1}
    assert event_words({"type": "composed", "events": [inner, inner], "count": 3}).startswith(
        "3 times: a mechanism of pure"
    )


def test_what_a_tuned_run_was_chosen_among_is_shown(edge_run):
    candidates = [{"method": "gap", "settings": {"num_hops": hops}} for hops in (1, 2)]
    certificate = {**edge_run.certificate, "candidates": candidates}
    page = run_page(replace(edge_run, certificate=certificate, released={}))
    assert "Chosen among: gap with num_hops 1." in page
    assert "Chosen among: gap with num_hops 2." in page
