"""One clipped mean gradient a cell: brute force over data sets that differ in a whole cell, and planted faults."""

import numpy as np
import pytest
import soundness_cells as brute
import torch
from scipy import stats
from soundness_neighbors import assert_sound

from sfumato.bounded._classes import class_steps, members
from sfumato.bounded._gradients import PrivateSGD
from sfumato.errors import InputError
from sfumato.nn._training import SGD
from sfumato.privacy.accounting import epsilon
from sfumato.privacy.events import PoissonGaussianEvent

KEY = bytes(32)
CLAIMS = {"replace": 2.0, "add-remove": 1.0}


@pytest.mark.parametrize("most", [99, 1], ids=["all", "one member"])
@pytest.mark.parametrize("relation", CLAIMS)
@pytest.mark.parametrize("name", brute.PARTITIONS)
def test_one_cell_moves_a_step_by_the_bound_and_no_more(name, relation, most):
    assert_sound(brute.measure(brute.real_steps, name, relation, most=most), CLAIMS[relation], brute.SIZE)


def test_the_rebuilt_steps_are_the_real_ones_but_for_the_fault():
    for data in brute.data_sets(6):
        for partition in brute.PARTITIONS.values():
            for most in (99, 1):
                real, again = (
                    brute.run(steps, data, partition, brute.SETTINGS, most)
                    for steps in (brute.real_steps, brute.rebuilt_steps())
                )
                assert np.array_equal(real.released, again.released)
                assert real.draws == again.draws


@pytest.mark.parametrize(
    ("fault", "name", "relation"),
    [
        ({"realised_cells": True}, "class", "replace"),
        ({"realised_size": True}, "class", "replace"),
        ({"summed": True}, "class", "replace"),
        ({"clipped_records": True}, "directions", "replace"),
        ({"empty_adds": True}, "declared", "add-remove"),
        ({"shared_coins": True}, "centroids", "replace"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else value,
)
def test_planted_faults_are_caught(fault, name, relation):
    most = 1 if "shared_coins" in fault else 99
    with pytest.raises(AssertionError, match="too small"):
        assert_sound(
            brute.measure(brute.rebuilt_steps(**fault), name, relation, most=most), CLAIMS[relation], brute.SIZE
        )


def test_private_k_means_is_not_a_partition_by_public_centroids():
    """One cell's records move the centroids, and so other cells' records."""
    with pytest.raises(AssertionError, match="too small"):
        assert_sound(brute.measure(brute.real_steps, "centroids", "replace", cells=brute.of_k_means), 2.0, brute.SIZE)


@pytest.mark.parametrize("name", brute.PARTITIONS)
def test_a_bound_of_one_clip_for_replaced_cells_is_too_small(name):
    with pytest.raises(AssertionError, match="too small"):
        assert_sound(brute.measure(brute.real_steps, name, "replace"), 1.0, brute.SIZE)


def test_a_bound_of_one_clip_for_replaced_cells_would_claim_less():
    """The multiplier is the standard deviation over S under both relations; the event carries the factor 2."""
    right, wrong = (epsilon([PoissonGaussianEvent(0.2, 1.6, 200, word)], 1e-3) for word in ("replace", "add-remove"))
    assert right > 1.5 * wrong
    doubled = epsilon([PoissonGaussianEvent(1.0, 0.8, 3, "add-remove")], 1e-3)
    assert epsilon([PoissonGaussianEvent(1.0, 1.6, 3, "replace")], 1e-3) == pytest.approx(doubled)


@pytest.mark.parametrize("steps", [brute.real_steps, brute.rebuilt_steps()], ids=["real", "rebuilt"])
def test_a_cell_is_drawn_with_the_stated_probability_however_many_records_it_holds(steps):
    assert stats.binomtest(round(400 * brute.moved_share(steps)), 400, 0.1).pvalue > 1e-3


def test_coins_of_records_in_place_of_cells_are_caught():
    assert stats.binomtest(round(400 * brute.moved_share(brute.rebuilt_steps(by_record=True))), 400, 0.1).pvalue < 1e-9


@pytest.mark.parametrize("steps", [brute.real_steps, brute.rebuilt_steps()], ids=["real", "rebuilt"])
def test_the_noise_drawn_is_the_noise_charged(steps):
    brute.assert_noised(steps)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"noise_scale": 2 / 3}, "noise of 1 clips"),
        ({"noise_scale": 3 / 2}, "noise of 2.25 clips"),
        ({"one_key": True}, "same noise for two steps"),
        ({"skip_empty": True}, "draws for 4 steps"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_planted_faults_of_noise_are_caught(fault, message):
    with pytest.raises(AssertionError, match=message):
        brute.assert_noised(brute.rebuilt_steps(**fault))


@pytest.mark.parametrize("clip", [1e-9, 0.1, 3.0, 1e9])
@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-30, 1.0, 1e30, 1e150, 1e200, 1e308, np.inf, np.nan])
def test_no_gradient_exceeds_the_clip_and_large_ones_reach_it(scale, clip):
    rng = np.random.default_rng(0)
    for size in (1, 7, 1000, 300000):
        gradient = torch.from_numpy(rng.normal(size=size)) * scale
        norm = sum(step * step for step in brute.whole_gradient(gradient, clip).tolist())  # whole numbers of any size
        assert norm <= 4**24
        if clip * 1e3 < scale <= 1e150:
            assert norm >= 0.999 * 4**24


def test_a_gradient_within_the_clip_is_kept():
    gradient = torch.tensor([0.3, -0.2, 0.0], dtype=torch.float32)
    assert np.allclose(brute.whole_gradient(gradient, 1.0) / 2**24, gradient.double(), atol=2**-24)


def test_members_are_uniform_and_depend_on_cell_and_step_alone():
    rows = np.array([3, 5, 8, 13, 21])
    assert np.array_equal(members(KEY, 0, 0, rows, 5), rows)
    assert len(members(KEY, 0, 0, rows[:0], 2)) == 0
    drawn = [tuple(members(KEY, step, 4, rows, 2).tolist()) for step in range(3000)]
    counts = [drawn.count(pair) for pair in sorted(set(drawn))]
    assert len(counts) == 10
    assert stats.chisquare(counts).pvalue > 1e-4
    assert drawn != [tuple(members(KEY, step, 5, rows, 2).tolist()) for step in range(3000)]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"cells": 0}, "num_cells"), ({"clip": 1e-10}, "l2_clip_norm"), ({"clip": 1e10}, "l2_clip_norm"),
     ({"length": 1}, "mean_gradient")],
)  # fmt: skip
def test_errors_name_the_argument(wrong, named):
    """A gradient of one number would be added to every parameter."""
    given = {"cells": 1, "clip": 1.0, "length": 2, **wrong}
    settings = PrivateSGD(1.0, 1, given["clip"], 1.0, 0.1)
    weight = torch.nn.Parameter(torch.zeros(2))
    with pytest.raises(InputError, match=f"Expected {named} to"):
        class_steps(SGD([weight], 0.1), lambda cell, step: torch.ones(given["length"]), given["cells"], settings, KEY)
