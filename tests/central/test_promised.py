"""Promised messages from end to end: what is handed to the noise, what the rest goes to, and who may see what."""

from dataclasses import replace

import numpy as np
import pytest

import sfumato as sf
from sfumato.audit._promises import _LEAVES
from sfumato.central import _promised_releases as promised_releases
from sfumato.central._compatibility import Expected, expected_rows, find_law, log_likelihood
from sfumato.central._piloted import FEATURES_CHOSEN
from sfumato.central._promised import PromisedMessages
from sfumato.central._tuned import Tuned
from sfumato.errors import DataError, InputError, SchemaError, UnsupportedUnitError
from sfumato.graph._declared import with_public_degrees
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.record import _release_folder as release_folder
from sfumato.report._everyday import SEEN
from sfumato.verify import verify

UNIT = sf.NodeLevel(arcs="incident")


def graph_of(degree=20, homophily=0.8, seed=0, **facts):
    graph = stochastic_block_model(600, 3, mean_degree=degree, homophily=homophily, num_features=4, seed=seed)
    return replace(graph.with_split(), **facts)


def plan_for(graph, epsilon=8.0, unit=UNIT, **settings):
    return PromisedMessages(**settings).calibrate(sf.Budget(epsilon, 1e-5), unit, graph.public_facts(unit))


def without(graph, record):
    """The graph whose record is emptied, with every arc in and out of it."""
    owner = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr))
    kept = (owner != record) & (graph.indices != record)
    indptr = np.r_[0, np.cumsum(np.bincount(owner[kept], minlength=graph.num_nodes))]
    x, y = graph.x.copy(), graph.y.copy()
    x[record], y[record] = 0, -1
    return replace(graph, indptr=indptr, indices=graph.indices[kept], x=x, y=y)


@pytest.fixture
def handed(monkeypatch):
    """The exact sums of pairs and rows that a fit hands to the noise; the releases are the same each time."""
    seen = {}

    def fixed(sums, stddev, key):
        seen[sums.shape] = sums.copy()
        return np.eye(3, dtype=np.int64) * 2**32 if sums.shape == (3, 3) else np.ones_like(sums)

    monkeypatch.setattr(promised_releases, "noisy", fixed)
    monkeypatch.setattr(promised_releases, "hop_pays", lambda *_: True)
    monkeypatch.setattr("sfumato.central._promised.hop_pays", lambda *_: True)

    def call(graph):
        seen.clear()
        plan_for(graph, epochs=1).fit(graph)
        return seen[3, 3] / promised_releases.GRID, seen[graph.num_nodes, 3] / promised_releases.GRID / np.sqrt(6)

    return call


@pytest.mark.parametrize("public", [True, False])
def test_what_is_released_moves_by_at_most_one(handed, public):
    graph = with_public_degrees(graph_of()) if public else graph_of(max_degree=60)
    pairs, rows = handed(graph)
    records = *np.flatnonzero(graph.train_mask)[:6], *np.flatnonzero(~graph.train_mask)[:6]
    for record in map(int, records):
        others = handed(without(graph, record))
        moved = rows - others[1]
        moved[record] = 0
        assert 0 < np.linalg.norm(moved) <= 1
        assert np.abs(pairs - others[0]).sum() <= (1 if graph.train_mask[record] else 0)


def test_senders_have_no_row_and_rows_are_for_their_own_node(tmp_path):
    graph = with_public_degrees(graph_of())
    fitted = plan_for(graph).fit(graph)
    assert not fitted.released["aggregate/1"][graph.train_mask].any()
    assert fitted.released["aggregate/1"][~graph.train_mask].any()
    seen = {release.name: release.visible_to for release in fitted.plan.releases}
    assert seen == {
        "center": "anyone",
        "head": "anyone",
        "pairs": "anyone",
        "test": "anyone",
        "aggregate/1": "the node itself",
    }
    shown = fitted.certificate.values["who_may_see"]
    assert "its noisy row of neighbors' classes" in shown["the node itself"]
    assert shown["anyone"] == ["weights", "noisy pairs of classes", "noisy counts of right answers"]
    run = fitted.save(tmp_path / "run")
    rows = fitted.released["aggregate/1"][~graph.train_mask]
    left = b"".join(path.read_bytes() for path in (run / "release").iterdir())
    assert all(row.tobytes() not in left for row in rows)
    assert np.array_equal(sf.load(run).predict_proba(graph), fitted.predict_proba(graph))
    assert np.array_equal(fitted.predict(replace(graph, roles=None)), fitted.predict(graph))
    (run / "own" / "rows.safetensors").unlink()
    with pytest.raises(InputError, match="own/"):
        sf.load(run).predict(graph)


def test_the_certificate_lists_degrees_that_were_read_from_the_data():
    graph = graph_of()
    declared = replace(graph, degree_bounds=np.full(600, 90))
    for one, listed in ((with_public_degrees(graph), True), (declared, False)):
        values = plan_for(one, epochs=1).fit(one).certificate.values
        assert ("degrees" in values["assumed_public"]) is listed
        assert values["public_facts"]["degree_bounds"] is True


@pytest.mark.parametrize("homophily", [0.9, 0.05])
def test_messages_are_read_whether_friends_are_alike_or_not(homophily):
    graph = with_public_degrees(graph_of(30, homophily))
    fitted = plan_for(graph, 9.0).fit(graph)
    right = (fitted.predict(graph) == graph.y)[~graph.train_mask].mean()
    alone = sf.catalog.method_named("linear").calibrate(sf.Budget(9.0, 1e-5), UNIT, graph.public_facts(UNIT)).fit(graph)
    floor = (alone.predict(graph) == graph.y)[~graph.train_mask].mean()
    assert right > floor + 0.1


def test_the_rest_goes_to_features_where_messages_say_nothing():
    graph = graph_of(20, 1 / 3, max_degree=599)
    fits = [plan_for(graph, 4.0).fit(graph) for _ in range(3)]
    unread = [fitted for fitted in fits if not fitted.released["aggregate/1"].any()]
    assert len(unread) >= 2  # what messages say is measured under secret noise, which misleads now and then
    assert all(len(fitted.ledger.entries) == 6 for fitted in unread)
    for fitted in fits:
        dropped = not fitted.released["aggregate/1"].any()
        assert fitted.unused == (FEATURES_CHOSEN,) * dropped
        assert (FEATURES_CHOSEN in fitted.certificate.values["notes"]) is dropped


def test_flat_laws_and_drowned_rows_add_nothing():
    law = find_law(np.zeros((3, 3)), 1.0, directed=False)
    assert not law.known
    bounds, sends = np.full(50, 9), np.arange(50) < 40
    rows = np.random.default_rng(0).normal(size=(50, 3))
    found = log_likelihood(rows, 1.0, law, expected_rows(law, bounds, sends), bounds)
    assert np.ptp(found, axis=1).max() < 1e-9
    sharp = find_law(np.eye(3) * 100, 1.0, directed=False)
    drowned = log_likelihood(rows, 1e4, sharp, Expected(1.0, np.full(50, 5.0)), bounds)
    assert np.ptp(drowned, axis=1).max() < 0.01


def of_many(**facts):
    graph = stochastic_block_model(1500, 3, mean_degree=40, homophily=0.9, num_features=4, seed=0)
    return replace(graph.with_split(), **facts)


@pytest.mark.parametrize("relation", ["remove", "replace"])
def test_a_bound_is_found_where_none_is_declared(relation, tmp_path):
    graph, unit = of_many(), sf.NodeLevel(arcs="incident", relation=relation)
    plan = plan_for(graph, 8.0 if relation == "remove" else 16.0, unit)
    assert [release.name for release in plan.releases] == [
        "center",
        "head",
        "typical",
        "bound",
        "pairs",
        "test",
        "aggregate/1",
    ]
    fitted = plan.fit(graph)
    degrees = promised_releases.degrees_of(plan, 1500, fitted.released, None)
    counts = promised_releases.sender_counts(graph.indptr, graph.indices, graph.train_mask)
    assert counts.max() <= degrees.found.bound < 750
    run = fitted.save(tmp_path / "run")
    assert verify(run).problems == ()
    shown = fitted.certificate.values["who_may_see"]["anyone"]
    assert {*shown} <= {*SEEN} & {*_LEAVES}
    assert any("senders" in one for one in shown)
    assert np.array_equal(sf.load(run).predict_proba(graph), fitted.predict_proba(graph))
    right = (fitted.predict(graph) == graph.y)[~graph.train_mask].mean()
    assert right > 0.8


def test_a_bound_is_found_by_a_public_rule():
    for epsilon, how, found in (
        (8.0, {}, True), (8.0, {"max_degree": 900}, True), (8.0, {"max_degree": 120}, False), (2.0, {}, False),
        (8.0, {"degree_bounds": np.full(1500, 1000)}, False),
    ):  # fmt: skip
        plan = plan_for(of_many(**how), epsilon)
        assert ("bound" in {release.name for release in plan.releases}) is found


def test_what_is_released_moves_by_at_most_one_where_a_bound_is_found(monkeypatch):
    """The levels are those of one graph for all: then nothing else may move by more, though many nodes are above the bound."""
    graph, seen = of_many(), {}
    levels = {"typical": 30 * promised_releases.GRID, "bound": 0}

    def fixed(sums, stddev, key):
        seen[sums.shape] = sums.copy()
        return np.eye(3, dtype=np.int64) * 2**32 if sums.shape == (3, 3) else np.ones_like(sums)

    def known(plan, graph, session):
        for name in levels:
            session.charge(name)
        return {name: np.full((1, 1), value) for name, value in levels.items()}

    monkeypatch.setattr(promised_releases, "noisy", fixed)
    monkeypatch.setattr("sfumato.central._promised.release_levels", known)
    monkeypatch.setattr("sfumato.central._promised.hop_pays", lambda *_: True)
    monkeypatch.setattr(promised_releases, "find", lambda *_: promised_releases.Found(43, 14))
    counts = promised_releases.sender_counts(graph.indptr, graph.indices, graph.train_mask)
    assert 10 < (counts > 43).sum() <= 14
    plan = plan_for(graph, epochs=1)

    def call(one):
        seen.clear()
        plan.fit(one)
        return seen[3, 3] / promised_releases.GRID, seen[1500, 3] / promised_releases.GRID / np.sqrt(6)

    pairs, rows = call(graph)
    for record in (*np.flatnonzero(graph.train_mask)[:3], *np.flatnonzero(~graph.train_mask)[:3]):
        others = call(without(graph, int(record)))
        moved = rows - others[1]
        moved[record] = 0
        assert 0 < np.linalg.norm(moved) <= 1
        assert np.abs(pairs - others[0]).sum() <= (1 if graph.train_mask[record] else 0)


def test_a_bound_must_hold():
    graph = graph_of()
    with pytest.raises(SchemaError, match="max_degree=3"):
        replace(graph, max_degree=3)
    with pytest.raises(SchemaError, match="declared bound"):
        replace(graph, degree_bounds=np.full(600, 2))
    for unit in (sf.NodeLevel(), sf.EdgeLevel(directed=False), sf.RecordLevel()):
        with pytest.raises(UnsupportedUnitError):
            plan_for(replace(graph, max_degree=60), unit=unit)


def test_a_choice_among_settings_is_refused():
    graph = graph_of(max_degree=60)
    tuned = Tuned((PromisedMessages(epochs=5), PromisedMessages(epochs=10)))
    with pytest.raises(UnsupportedUnitError, match="own node alone"):
        tuned.calibrate(sf.Budget(4.0, 1e-5), UNIT, graph.public_facts(UNIT))


def test_too_little_budget_is_refused_before_data():
    graph = graph_of(max_degree=60)
    with pytest.raises(InputError, match="budget"):
        plan_for(graph, 1e-3)


@pytest.mark.parametrize(
    ("planned", "found", "problem"),
    [
        ({"max_degree": 60}, {"max_degree": 599}, "max_degree=60"),
        ({"max_degree": 60}, {}, "max_degree=60"),
        ({"max_degree": 60}, {"max_degree": 60, "degree_bounds": np.full(600, 90)}, "degree_bounds=False"),
        ({"degree_bounds": np.full(600, 90)}, {}, "degree_bounds=True"),
        (
            {"degree_bounds": np.full(600, 90)},
            {"degree_bounds": np.full(600, 90), "assumed_public": ("degrees",)},
            "'degrees'",
        ),
    ],
)
def test_bounds_other_than_the_certificate_would_state_are_refused_before_a_charge(planned, found, problem, tmp_path):
    graph, ledger = graph_of(), tmp_path / "ledger.jsonl"
    plan = plan_for(replace(graph, **planned), epochs=1)
    with pytest.raises(DataError, match=problem):
        plan.fit(replace(graph, **found), ledger=ledger)
    assert not ledger.exists()


def test_a_save_that_fails_leaves_nothing_and_can_be_repeated(tmp_path, monkeypatch):
    graph = graph_of(max_degree=60)
    fitted, write = plan_for(graph, epochs=1).fit(graph), release_folder.whole_file

    def full(path, *mode):
        if path.name == "model.safetensors":
            raise OSError(28, "No space left on device")
        return write(path, *mode)

    with monkeypatch.context() as patched:
        patched.setattr(release_folder, "whole_file", full)
        with pytest.raises(OSError, match="No space"):
            fitted.save(tmp_path / "run")
    assert not any(tmp_path.iterdir())
    assert verify(fitted.save(tmp_path / "run")).problems == ()


def test_a_run_without_its_rows_is_not_saved_again(tmp_path):
    graph = graph_of(max_degree=60)
    run = plan_for(graph, epochs=1).fit(graph).save(tmp_path / "run")
    assert verify(sf.load(run).save(tmp_path / "copy")).problems == ()
    (run / "own" / "rows.safetensors").unlink()
    with pytest.raises(InputError, match="own/"):
        sf.load(run).save(tmp_path / "other")
    assert not (tmp_path / "other").exists()
