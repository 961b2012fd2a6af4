"""Histories of edges: brute force over all pasts of one edge in a few days measures what all releases together move."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import sfumato as sf
from sfumato.bounded import _history as histories
from sfumato.bounded._encoder import Encoder, encoder
from sfumato.bounded._history import (
    NEVER,
    History,
    Increments,
    Stream,
    Sums,
    exact_sums,
    increment_sensitivity,
    noisy_day,
)
from sfumato.bounded._refreshes import PHASES, Schedule
from sfumato.central._daily import DailyMessages
from sfumato.privacy.calibration import gaussian_noise_multiplier

DAYS, EDGE, ARC = 4, sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True)
STEEP = Encoder(
    np.array([32768, 8192, 4096, 2048])
)  # a late change is told hardly: its deletion is nearly a second edge
PASTS = [(came, gone) for came in range(1, DAYS + 1) for gone in (*range(came, DAYS + 1), NEVER)]
GRAPH = sf.graph.Graph.from_edges(
    [], [], 5, directed=False, y=[0, 1, 0, 1, 0], x=np.zeros((5, 1)), roles=[0, 0, 2, 0, 2]
)
AROUND = [(0, 2, 1, NEVER), (1, 2, 2, 3), (3, 4, 1, 2), (0, 3, 3, NEVER)]
INCREMENTS, SUMS = (lambda gone: Increments(Fraction(0), gone)), (lambda gone: Sums(STEEP, 0.0, gone))


def released(edges, unit, refreshes, form, start):
    """All that all days tell before noise, as one vector."""
    method = DailyMessages(days=DAYS, refreshes=refreshes, start=start)
    edges = np.array(edges).reshape(-1, 4).T
    if not unit.directed:
        edges = np.hstack([edges, edges[[1, 0, 2, 3]]])
    history = method.history(unit, GRAPH, *edges)
    stream = Stream.of(history, method.schedule, method.phases(GRAPH), 2)
    return np.concatenate([exact_sums(stream, *stream.due(day), form).ravel() for day in range(1, DAYS + 1)])


def moves(unit, form, order):
    """By how much one edge with any past moves everything, over all pairs of nodes, pasts and schedules."""
    found = []
    for refreshes, start in ((4, 0), (3, 0), (2, 5), (1, 0)):
        base = released(AROUND, unit, refreshes, form, start)
        for pair, past in product([(0, 1), (0, 2), (1, 3), (2, 0), (2, 4), (3, 2)], PASTS):
            if pair not in [edge[:2] for edge in AROUND]:
                found.append(
                    np.linalg.norm(released([*AROUND, (*pair, *past)], unit, refreshes, form, start) - base, order)
                )
    return np.array(found)


@pytest.mark.parametrize("unit", [EDGE, ARC], ids=["edge", "arc"])
@pytest.mark.parametrize("deletions", [False, True])
def test_increments_of_a_whole_history_move_by_the_claim_at_most_and_reach_it(unit, deletions):
    found = moves(unit, INCREMENTS(deletions), 1)
    assert found.max() == increment_sensitivity(deletions)
    assert len(found) > 200


@pytest.mark.parametrize("unit", [EDGE, ARC], ids=["edge", "arc"])
@pytest.mark.parametrize("deletions", [False, True])
def test_sums_of_a_whole_history_move_by_the_claim_at_most_and_reach_it(unit, deletions):
    found = moves(unit, SUMS(deletions), 2)
    assert found.max() <= STEEP.norm(deletions)
    assert found.max() > STEEP.norm(deletions) - 1e-9


def test_a_claim_that_forgets_the_deletion_is_below_what_moves():
    assert moves(EDGE, INCREMENTS(True), 1).max() > increment_sensitivity(False)
    assert moves(EDGE, SUMS(True), 2).max() > 1.01 * STEEP.norm(False)
    assert encoder(365).norm(True) > 1.02 * encoder(365).norm(False), "the encoder in use pays for it, too"


def test_the_norm_of_the_encoder_is_that_of_all_columns_and_differences():
    for most in (1, 2, 7, 90):
        q = encoder(most).steps
        matrix = sum(np.diag(np.full(most - k, q[k]), -k) for k in range(most)).astype(object)
        pairs = [matrix[:, i] - matrix[:, k] for i in range(most) for k in range(i + 1, most)]
        squares = [(one @ one) for one in (*matrix.T, *pairs)]
        assert encoder(most).squared_norm(True) == max(squares)
        assert encoder(most).squared_norm(False) == max(squares[:most])
        assert Fraction(encoder(most).norm(True)) ** 2 >= max(squares)


def told_twice(ages):
    return (np.asarray(ages) <= 1).astype(np.int64)


@pytest.mark.parametrize(
    ("owner", "name", "fault"),
    [
        (DailyMessages, "order", lambda method, graph, known: np.zeros(graph.num_nodes, int)),
        (Increments, "weights", lambda form, ages: told_twice(ages)),
        (
            Stream,
            "due",
            lambda stream, day: (np.arange(5), np.maximum(stream.schedule.done(stream.phases, day) - 1, 0)),
        ),
    ],
    ids=["nothing is sent", "a change that is told twice", "rows that are told off schedule"],
)
def test_planted_faults_are_caught(monkeypatch, owner, name, fault):
    monkeypatch.setattr(owner, name, fault)
    assert moves(EDGE, INCREMENTS(False), 1).max() != increment_sensitivity(False)


def test_messages_along_both_arcs_are_caught(monkeypatch):
    def both(self, unit, graph, sources, targets, came, gone):
        return History(targets, graph.y[sources].astype(np.int64), came, gone)

    monkeypatch.setattr(DailyMessages, "history", both)
    assert moves(EDGE, INCREMENTS(False), 1).max() == 2


def noise_of(refreshes, key=bytes(32)):
    """The noise of two days on which nothing comes."""
    nothing, form = History(*np.zeros((4, 0), np.int64)), Increments(Fraction(3))
    stream = Stream.of(nothing, Schedule(2, refreshes), np.zeros(40, int), 2)
    return [noisy_day(stream, day, form, key)[2] for day in (1, 2)]


def test_noise_is_that_of_its_refresh_and_again_the_same_after_a_crash():
    one, two = noise_of(2)
    assert (one == two).mean() < 0.5
    assert np.array_equal(one, noise_of(2)[0])
    assert not np.array_equal(one, noise_of(2, bytes(31) + b"1")[0])


def test_a_key_without_the_day_repeats_noise(monkeypatch):
    derive = histories.derive_key
    monkeypatch.setattr(histories, "derive_key", lambda key, purpose, day, form, mac: derive(key, purpose, form, mac))
    one, two = noise_of(2)
    assert np.array_equal(one, two), "a difference of two releases would have no noise"


def test_later_days_are_not_read():
    for past in PASTS:
        for day in range(1, DAYS):
            known = [(0, 2, *past)]
            later = [(0, 2, past[0], past[1] if past[1] <= day else NEVER)] if past[0] <= day else []
            rows = [np.array(edges, int).reshape(-1, 4).T[[1, 0, 2, 3]] for edges in (known, later)]
            streams = [Stream.of(History(*one), Schedule(4, 4), np.zeros(5, int), 2) for one in rows]
            sides = [exact_sums(one, *one.due(day), INCREMENTS(True)) for one in streams]
            assert np.array_equal(*sides), (past, day)


def test_every_row_is_refreshed_as_often_as_the_schedule_says_and_once_a_day_at_most():
    rng = np.random.default_rng(0)
    for days, refreshes in ((365, 12), (365, 365), (7, 3), (10, 1), (4096, 4096), (100_000, 4096)):
        schedule, phases = (
            Schedule(days, refreshes),
            np.array([0, PHASES - 1, *rng.integers(0, PHASES, 20)]),
        )
        each = np.diff([schedule.done(phases, day) for day in range(min(days, 4096) + 1)], axis=0)
        assert each.min() >= 0
        assert each.max() == 1
        assert (schedule.done(phases, days) == refreshes).all()
        first = 1 + phases * days // (refreshes * PHASES)
        assert [int(schedule.done(phases, day)[i]) for i, day in enumerate(first)] == [1] * len(phases)
        assert not schedule.done(phases, first - 1).any()


def test_figures_of_the_encoder_are_those_of_the_module():
    def deviations(steps, days, unbiased=False):
        z, q = gaussian_noise_multiplier(2.0, 1e-6), np.asarray(steps, float)
        if unbiased:
            return z * np.square(q).sum() / q[0] ** 2
        weights = np.cumsum(q)[:days]
        return z * np.linalg.norm(q) * days / np.linalg.norm(weights)

    k = np.arange(365.0)
    root = np.cumprod(np.concatenate(([1], (2 * k[1:] - 1) / (2 * k[1:]))))
    forms = encoder(365).steps, np.ones(365), root
    assert [round(deviations(one, 365), 1) for one in forms] == [3.7, 3.9, 4.8]
    assert [round(deviations(one, 30), 1) for one in forms] == [7.0, 13.1, 4.8]
    assert round(deviations(root, 365, unbiased=True), 1) == 6.6
    assert encoder(365).norm(True) / encoder(365).norm(False) == pytest.approx(1.03, abs=0.005)


@pytest.mark.parametrize(
    "forms", [(Increments(Fraction(5)), Increments(Fraction(9))), (Sums(STEEP, 1e7), Sums(STEEP, 2e7))]
)
def test_forms_of_two_scales_never_share_draws_on_the_same_rows(forms):
    """With shared draws, two releases of one day would be two equations for its rows and one unknown."""
    size = 4000
    nothing = History(*np.zeros((4, 0), np.int64))
    stream = Stream.of(nothing, Schedule(1, 1), np.zeros(size, np.int64), 1)
    noises = [noisy_day(stream, 1, form, bytes(32))[2].ravel() for form in forms]
    assert abs(np.corrcoef(*noises)[0, 1]) < 0.1


@pytest.mark.parametrize("deletions", [False, True])
def test_the_norm_is_never_below_the_root(deletions):
    for refreshes in (*range(1, 60), 365, 1000):
        square, norm = encoder(refreshes).squared_norm(deletions), encoder(refreshes).norm(deletions)
        assert square <= Fraction(norm) ** 2 < square * (1 + Fraction(1, 10**15))
