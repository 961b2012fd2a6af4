"""Heads that learn on longer rows: the same scores, and steps in which the bias takes a seventeenth of a gradient."""

import numpy as np
import pytest
import torch

from sfumato.bounded._gradients import PrivateSGD, private_steps
from sfumato.central._heads import LENGTH, OnLongRows, apply, chosen, for_long_rows, zero_head
from sfumato.central._linear import Linear

KEY = bytes(32)


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


@pytest.mark.parametrize("pace", [1.0, LENGTH])
def test_steps_are_those_of_a_bias_input_of_a_quarter(rows, pace):
    """Rows (4 x, 1) with clip 4 C and rate r / 4 learn what rows (x, 1 / 4) learn with clip C and rate r, without noise."""
    y, asked = torch.from_numpy(np.arange(40) % 3), Linear(learning_rate=0.04, l2_clip_norm=0.5)
    head, read = zero_head(6, 3).double(), chosen(rows, LENGTH)
    beside = torch.from_numpy(np.hstack([rows, np.full((40, 1), 0.25)]))
    plain = torch.nn.Linear(7, 3, bias=False).double()
    torch.nn.init.zeros_(plain.weight)
    for model, one, inputs in ((head, OnLongRows(asked), read), (plain, asked, lambda ids: beside[ids])):
        sgd = PrivateSGD(1.0, 1, one.l2_clip_norm, 1e-6, one.learning_rate)
        batch = lambda ids, inputs=inputs: (inputs(ids), y[ids])  # noqa: E731
        private_steps(model, batch, np.arange(40), sgd, KEY, bias_pace=pace if model is head else 1.0)
    weight, expected = (model.weight.detach().numpy() for model in (head, plain))
    np.testing.assert_allclose(weight * LENGTH, expected[:, :6], atol=2e-3)
    np.testing.assert_allclose(head.bias.detach().numpy(), expected[:, 6] * 0.25 * pace, atol=2e-3)


def test_settings_that_a_certificate_names_are_those_of_rows_of_norm_1():
    asked = Linear(learning_rate=0.08, l2_clip_norm=0.5, epochs=7)
    assert (OnLongRows(asked).learning_rate, OnLongRows(asked).l2_clip_norm, OnLongRows(asked).epochs) == (0.02, 2.0, 7)
    assert asked.settings["l2_clip_norm"] == 0.5
