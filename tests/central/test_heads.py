"""Heads that learn on longer rows: the same scores, and steps in which the bias takes a seventeenth of a gradient."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import sfumato as sf
from sfumato.bounded._gradients import clipped_gradient_sum
from sfumato.central import _learning
from sfumato.central._baselines import MLP
from sfumato.central._heads import LENGTH, OnLongRows, apply, chosen, for_long_rows
from sfumato.central._linear import Linear
from sfumato.central._piloted import PilotedMessages
from sfumato.central._promised import PromisedMessages
from sfumato.graph._graph import PublicFacts
from sfumato.nn._training import Adam


@pytest.fixture
def rows():
    x = np.random.default_rng(0).standard_normal((40, 6))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def test_scores_of_a_head_stay_whichever_rows_it_reads(rows):
    head = torch.nn.Linear(6, 3)
    before = apply(head, rows)
    with for_long_rows(head):
        assert np.array_equal(apply(head, rows * np.float32(LENGTH)), before)
    assert np.array_equal(apply(head, rows), before)


def test_a_head_is_for_rows_of_norm_1_after_a_fit_that_fails(rows):
    head = torch.nn.Linear(6, 3)
    before = apply(head, rows)
    with pytest.raises(KeyboardInterrupt), for_long_rows(head):
        raise KeyboardInterrupt
    assert np.array_equal(apply(head, rows), before)


def test_clipped_sums_are_those_of_a_bias_input_of_a_quarter(rows):
    """Rows (4 x, 1) with clip 4 C add what rows (x, 1 / 4) add with clip C, where the clip cuts most examples, and not all."""
    y, asked = torch.from_numpy(np.arange(40) % 3), Linear(l2_clip_norm=0.6)
    head, plain = torch.nn.Linear(6, 3).double(), torch.nn.Linear(7, 3, bias=False).double()
    with torch.no_grad():
        plain.weight[:, :6], plain.weight[:, 6] = head.weight, 4 * head.bias
    beside = torch.from_numpy(np.hstack([rows, np.full((40, 1), 0.25)]))
    clip = OnLongRows(asked).l2_clip_norm
    with for_long_rows(head):
        long = clipped_gradient_sum(head, [chosen(rows, LENGTH)(np.arange(40))], y, clip) * clip / 2**28
    short = (clipped_gradient_sum(plain, [beside], y, 0.6) * 0.6 / 2**28).reshape(3, 7)
    np.testing.assert_allclose(long[:18].reshape(3, 6) / LENGTH, short[:, :6], atol=2e-3)
    np.testing.assert_allclose(long[18:], 4 * short[:, 6], atol=8e-3)
    other = (clipped_gradient_sum(plain, [beside], y, 0.8) * 0.8 / 2**28).reshape(3, 7)
    assert np.abs(other - short).max() > 0.1  # a clip a third off is another sum


@pytest.mark.parametrize(
    ("method", "unit"),
    [
        (Linear(), sf.NodeLevel()),
        (PilotedMessages(), sf.NodeLevel()),
        (PromisedMessages(), sf.NodeLevel(arcs="incident")),
    ],
    ids=lambda one: one.name,
)
def test_methods_train_heads_on_long_rows_with_the_clip_that_is_charged(monkeypatch, method, unit):
    seen, real = [], _learning.private_steps

    def steps(network, batch, ids, sgd, *rest, **how):
        seen.append((sgd.l2_clip_norm, sgd.learning_rate, how["bias_pace"], batch(np.arange(5))[0].plain().norm(dim=1)))
        return real(network, batch, ids, sgd, *rest, **how)

    monkeypatch.setattr(_learning, "private_steps", steps)
    graph = sf.graph.stochastic_block_model(300, 3, mean_degree=6, num_features=5, seed=0).with_split(seed=0)
    graph = replace(graph, max_degree=64)
    method.calibrate(sf.Budget(4.0, 1e-5), unit, graph.public_facts(unit)).fit(graph)
    assert seen
    for clip, rate, pace, norms in seen:
        assert (clip, rate, pace) == (pytest.approx(2.8), pytest.approx(0.0125), LENGTH)
        np.testing.assert_allclose(norms, LENGTH, rtol=2e-3)


def test_paces_are_multiples_of_the_rate():
    weight, bias = (torch.nn.Parameter(torch.zeros(2, dtype=torch.float64)) for _ in range(2))
    optimizer = Adam([weight, bias], 0.1, paces=(1.0, LENGTH))
    optimizer.grad[:] = 1.0
    optimizer.step()
    assert weight.tolist() == pytest.approx([-0.1, -0.1])
    assert bias.tolist() == pytest.approx([-0.4, -0.4])


@pytest.mark.parametrize(
    ("train", "settings", "share", "steps"),
    [
        (8000, {}, 1 / 8, 200),
        (1000, {}, 256 / 1000, 97),
        (8000, {"batch_size": 256}, 256 / 8000, 312),
        (8000, {"epochs": 8}, 1 / 8, 64),
    ],
)
def test_the_graph_free_network_draws_an_eighth_of_the_nodes(train, settings, share, steps):
    facts = PublicFacts(num_nodes=2 * train, num_train=train, num_features=4, num_classes=3, directed=False)
    event = MLP(**settings).calibrate(sf.Budget(1.0, 1e-6), sf.NodeLevel(), facts).releases[0].event
    assert (event.sampling_prob, event.steps) == (share, steps)


def test_settings_that_a_certificate_names_are_those_of_rows_of_norm_1():
    asked = Linear(learning_rate=0.08, l2_clip_norm=0.5, epochs=7)
    assert (OnLongRows(asked).learning_rate, OnLongRows(asked).l2_clip_norm, OnLongRows(asked).epochs) == (0.02, 2.0, 7)
    assert asked.settings["l2_clip_norm"] == 0.5
