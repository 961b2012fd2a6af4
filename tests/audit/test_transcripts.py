"""All noisy sums of a run: exact values are as far apart as the claim says and no farther, and scores have the stated law."""

import ast
from itertools import count
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from scipy.stats import kstest
from torch import nn

import sfumato as sf
from sfumato.audit import _transcripts as transcripts
from sfumato.audit import _worst as worst_pairs
from sfumato.audit._auditor import audit
from sfumato.audit._gaussian import epsilon_of_mu
from sfumato.audit._transcripts import audit_transcripts, differences, score, seen, worst
from sfumato.audit._worst import pairs
from sfumato.bounded import _grouping as grouping
from sfumato.catalog import method_named
from sfumato.central import _dpsgd, _learning

BUDGET, LARGE = sf.Budget(1.0, 1e-6), sf.Budget(8.0, 1e-6)
NODE, INCIDENT = sf.NodeLevel(max_out_degree=5), sf.NodeLevel(arcs="incident")
REPLACED, RECORD = sf.NodeLevel(max_out_degree=5, relation="replace"), sf.RecordLevel(relation="replace")
SOURCES = Path(transcripts.__file__).parents[1]


@pytest.fixture(autouse=True)
def fixed_keys(monkeypatch):
    numbers = count(1)
    monkeypatch.setattr(transcripts, "new_key", lambda: next(numbers).to_bytes(32, "big"))


@pytest.fixture
def few(monkeypatch):
    """Data sets of few empty records, and few runs that teach, where a run takes long."""
    monkeypatch.setattr(transcripts, "_TAUGHT", 2)
    monkeypatch.setattr(worst_pairs, "_MANY", 30)
    monkeypatch.setattr(worst_pairs, "_FEW", 30)


def apart(method, unit):
    method = method_named(method) if isinstance(method, str) else method
    plan, worlds, moves, _ = worst(method, unit, BUDGET, 0)
    taught = [transcripts.apart_of(seen(plan, worlds[0], 0), moves) for _ in range(2)]
    return epsilon_of_mu(max(taught), plan.delta)


class TestDistance:
    @pytest.mark.parametrize(
        ("method", "unit", "share"),
        [
            ("mlp", NODE, 0.99), ("mlp", INCIDENT, 0.99), ("mlp", RECORD, 0.99), ("linear", REPLACED, 0.95),
            ("label-messages", NODE, 0.99), ("label-messages", REPLACED, 0.99), ("promised-messages", INCIDENT, 0.95),
            ("dpar", INCIDENT, 0.99), ("graph-split", REPLACED, 0.99), ("gap", NODE, 0.95),
            ("dpgnn", NODE, 0.99), ("dpgnn", REPLACED, 0.99),
        ],
        ids=str,
    )  # fmt: skip
    def test_exact_sums_are_as_far_apart_as_the_claim_says_and_no_farther(self, method, unit, share):
        assert share < apart(method, unit) <= 1.0

    @pytest.mark.usefixtures("few")
    def test_exact_sums_of_classes_are_nearly_as_far_apart_as_the_claim_says(self):
        assert 0.8 < apart("class-dp", sf.ClassLevel()) <= 1.0

    def test_a_near_miss_is_farther_apart(self):
        real = _learning.PrivateSGD
        with patch.object(
            _learning, "PrivateSGD", lambda q, steps, clip, noise, rate: real(q, steps, clip, noise / 1.01, rate)
        ):
            assert apart("mlp", NODE) > 1.005

    @pytest.mark.parametrize(("unit", "between"), [(NODE, nn.Tanh), (REPLACED, nn.ReLU)], ids=str)
    @pytest.mark.usefixtures("few")
    def test_networks_of_the_users_own_are_read_in_both_forms(self, unit, between):
        """A stack is trained in batches, and any other network row by row; half of the noise is twice as far."""
        torch.manual_seed(0)
        method = sf.DPSGD(nn.Sequential(nn.Linear(2, 4), between(), nn.Linear(4, 2)))
        assert 0.99 < apart(method, unit) <= 1.0
        real = _dpsgd.PrivateSGD
        with patch.object(
            _dpsgd, "PrivateSGD", lambda q, steps, clip, noise, rate: real(q, steps, clip, noise / 2, rate)
        ):
            assert apart(method, unit) > 1.9

    def test_steps_are_sampled_where_they_should_be(self):
        plan, _ = next(pairs(method_named("mlp"), NODE, BUDGET, sampled=True))
        assert plan.releases[0].event.sampling_prob < 0.3
        assert next(pairs(method_named("linear"), NODE, BUDGET, sampled=True), None) is None
        assert next(pairs(method_named("gap"), sf.EdgeLevel(directed=True), BUDGET), None) is None


class TestScores:
    def test_they_are_normal_with_the_stated_shift(self):
        plan, worlds, moves, _ = worst(method_named("mlp"), NODE, LARGE, 0)
        members, others = ([score(seen(plan, world, 0), moves) for _ in range(150)] for world in worlds)
        shift = transcripts.apart_of(seen(plan, worlds[0], 0), moves)
        assert kstest(np.array(members) - shift, "norm").pvalue > 1e-3
        assert kstest(others, "norm").pvalue > 1e-3
        assert kstest(members, "norm").pvalue < 1e-6

    def test_entries_that_follow_noise_are_left_out(self):
        place = ("sum", (3,), 0)
        first, second = ([{place: (np.array([move, 0.0, swing]), 1.0)} for swing in (-9.0, 9.0)] for move in (2.0, 0.0))
        assert differences(first, second)[place][0].tolist() == [2.0, 0.0, 0.0]


class TestBounds:
    def test_most_of_the_claim_is_certified(self):
        found, names, broken = audit_transcripts(method_named("mlp"), NODE, LARGE, runs=200, confidence=0.999)
        assert 0.5 * 8 < found.epsilon_lower_bound < 8
        assert "exact sums are epsilon" in found.estimator
        assert (names, broken) == ({"network"}, "")

    @pytest.mark.parametrize("noise", [0.5, 0.6])
    def test_too_little_noise_in_each_step_is_found(self, noise):
        real = _learning.PrivateSGD
        less = patch.object(
            _learning, "PrivateSGD", lambda q, steps, clip, z, rate: real(q, steps, clip, noise * z, rate)
        )
        with less:
            assert (
                audit_transcripts(method_named("mlp"), NODE, LARGE, runs=200, confidence=0.999)[0].epsilon_lower_bound
                > 8
            )

    def test_the_auditor_reads_releases_that_never_leave(self):
        found = audit(method_named("promised-messages"), INCIDENT, BUDGET, size=0.06, fits=2)
        assert found.untested == ("pairs", "test")
        assert found.evidence[-1].trials == 2 * 2

    @pytest.mark.audit
    @pytest.mark.parametrize("method", ["mlp", "linear", "label-messages", "gap", "scattering", "dpar", "graph-split"])
    @pytest.mark.parametrize("unit", [NODE, REPLACED], ids=["remove", "replace"])
    def test_half_of_the_claim_is_certified_at_node_level(self, method, unit):
        found, _, _ = audit_transcripts(method_named(method), unit, BUDGET, runs=8000, confidence=0.999)
        assert 0.5 < found.epsilon_lower_bound <= 1


def test_a_witness_is_for_audits_alone():
    """Exact sums are shown to nobody else: no other file imports what sets a witness."""
    users = {
        path.parent.name
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").endswith("_witness")
        and any(name.name != "witnessed" and name.name[0].islower() for name in node.names)
    }
    assert users == {"audit"}


def test_a_run_without_a_witness_shows_nothing():
    rows = np.ones((1, 1), np.float32)
    sums = grouping.noisy_group_sums(rows, np.zeros(1, np.int64), 1, 2.0, bytes(32))
    shown = []
    with transcripts.witness(lambda noisy, stddev, exact: shown.append((noisy, exact()))):
        assert np.array_equal(grouping.noisy_group_sums(rows, np.zeros(1, np.int64), 1, 2.0, bytes(32)), sums)
    ((noisy, exact),) = shown
    assert np.array_equal(noisy, sums)
    assert exact.item() == 32767
    grouping.noisy_group_sums(rows, np.zeros(1, np.int64), 1, 2.0, bytes(32))
    assert len(shown) == 1
