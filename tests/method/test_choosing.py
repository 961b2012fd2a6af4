"""Sets, thresholds and orders keep what they promise: exactly, for every node that is left out in turn."""

import numpy as np
import pytest

from sfumato.errors import InputError
from sfumato.method._choosing import (
    BINS,
    NoisyCounts,
    balanced,
    bins_of,
    conformal_sets,
    covered_between,
    least_probability,
    needed,
    public_numbers,
    sets_from_counts,
)

DRAW = np.random.default_rng(5)
TABLES = {
    "plain": DRAW.dirichlet([1.0, 2.0, 0.5], 24),
    "few different": DRAW.dirichlet([1.0, 1.0, 1.0], 24).round(1),
    "all the same": np.full((24, 3), [0.8, 0.15, 0.05]),
}
LABELS = np.array([0] * 14 + [1] * 8 + [2] * 2)


def left_out(table, coverage, **how):
    """Whether the set of each node holds its class if it alone does not calibrate."""
    numbers = public_numbers(range(len(table)))
    for row, label in enumerate(LABELS):
        others = np.where(np.arange(len(table)) == row, -1, LABELS)
        yield conformal_sets(table, numbers, others, coverage, **how)[row, label]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_of_exchangeable_nodes_just_so_many_are_covered(table, coverage):
    covered = sum(left_out(table, coverage))
    assert covered == needed(coverage, 23)
    assert coverage <= covered / 24 <= coverage + 1 / 24


def test_one_fewer_would_not_be_enough():
    """With r one less, as without the correction for a finite sample, the share is below what was asked."""
    assert (needed(0.9, 23) - 1) / 24 < 0.9
    assert (needed(0.5, 24) - 1) / 25 < 0.5


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_each_class_is_covered_by_itself_and_one_of_few_nodes_is_in_every_set(table):
    covered = np.array(list(left_out(table, 0.75, each_class=True)))
    assert covered[LABELS == 0].sum() == needed(0.75, 13)
    assert covered[LABELS == 1].sum() == needed(0.75, 7)
    assert covered[LABELS == 2].all()  # one node is left to go by
    sets = conformal_sets(table, public_numbers(range(24)), LABELS, 0.75, each_class=True)
    assert sets[:, 2].all()
    assert not sets[:, 0].all()


def test_products_that_floats_round_up_cost_no_node():
    assert needed(0.7, 9) == 7
    assert 10 * 0.7 >= 7
    assert needed(0.55, 99) == 55  # 100 * 0.55 is 55.00000000000001


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_counts_without_noise_cover_as_many_on_average_over_numbers(table, coverage):
    """Bins tell nodes of one bin apart by their numbers alone, so over all numbers the share is what was asked for."""
    numbers, rows = np.linspace(0, 2**64 - 2049, 400).astype(np.uint64), np.arange(24)
    covered = []
    for row, label in enumerate(LABELS):
        own = table[rows != row][np.arange(23), LABELS[rows != row]]
        counts = np.bincount(bins_of(own), minlength=BINS)
        covered.append(
            sets_from_counts(np.repeat(table[[row]], 400, axis=0), numbers, NoisyCounts(counts, 1e-9), coverage)[0][
                :, label
            ].mean()
        )
    assert coverage - 0.01 <= np.mean(covered) <= coverage + 1 / 24 + 0.01


def test_noise_of_empty_bins_moves_the_covered_share_little():
    """Positive parts of noise do not add up, as they would if negative counts were cut off."""
    draw, shares = np.random.default_rng(1), []
    scores = draw.beta(4, 1, 1000)
    table = np.stack([scores, 1 - scores], axis=1)
    counts, numbers = np.bincount(bins_of(draw.beta(4, 1, 1000)), minlength=BINS), public_numbers(range(1000))
    for _ in range(60):
        noisy = counts + np.rint(draw.laplace(0, 6, BINS)).astype(np.int64)
        shares.append(
            [
                sets_from_counts(table, numbers, NoisyCounts(one, 6.0), 0.9)[0][:, 0].mean()
                for one in (noisy, np.maximum(noisy, 0))
            ]
        )
    plain = sets_from_counts(table, numbers, NoisyCounts(counts, 1e-9), 0.9)[0][:, 0].mean()
    mean, cut = np.mean(shares, axis=0)
    assert plain - 0.002 < mean < plain + 0.015
    assert abs(cut - plain) > 0.02


@pytest.mark.parametrize(("nodes", "epsilon"), [(50, 0.5), (100, 0.2), (250, 0.5)])
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_noise_costs_no_coverage_on_average_and_the_least_share_holds(nodes, epsilon, coverage):
    """Rare positives and right probabilities: the mean over draws of nodes and noise is what was asked for, or more."""
    draw = np.random.default_rng(3)
    chances = 1 / (1 + np.exp(2 - 1.5 * draw.normal(size=1000)))
    own = np.where(draw.random(1000) < chances, chances, 1 - chances)
    numbers, covered, least = public_numbers(range(1000)), [], []
    for _ in range(150):
        counts = np.bincount(bins_of(draw.choice(own, nodes)), minlength=BINS)
        noise = np.subtract(*draw.geometric(1 - np.exp(-epsilon), (2, BINS)))
        sets, low = sets_from_counts(own[:, None], numbers, NoisyCounts(counts + noise, 1 / epsilon), coverage)
        covered.append(sets.mean())
        least.append(low)
    assert np.mean(covered) >= coverage
    assert (np.array(covered) < np.array(least)).mean() <= 0.05
    assert np.mean(least) < coverage


def test_the_covered_share_follows_its_beta_law():
    draw, count = np.random.default_rng(0), 60
    shares = np.sort(draw.random((4000, count)), axis=1)[:, needed(0.9, count) - 1]  # of scores that are uniform
    low, high = covered_between(0.9, count)
    assert ((shares < low).mean(), (shares > high).mean()) == pytest.approx((0.025, 0.025), abs=0.008)


def test_a_recall_is_reached_by_just_so_many_and_needs_enough_nodes():
    table = TABLES["few different"][:, 1]
    mine = np.flatnonzero(LABELS == 1)
    reached = []
    for row in mine:
        seen = np.arange(24) != row
        reached.append(table[row] >= least_probability("recall=0.75", table[seen], LABELS[seen] == 1))
    assert sum(reached) >= needed(0.75, 7) == 6
    with pytest.raises(
        InputError, match=r"Expected 9 validation nodes of the class, or more, for a recall of 0\.9, got 8:"
    ):
        least_probability("recall=0.9", table, LABELS == 1)


@pytest.mark.parametrize(("recall", "few"), [(0.5, 1), (0.5, 8), (0.8, 4), (0.1, 1)])
def test_too_few_nodes_of_a_class_set_no_recall_and_as_many_as_are_asked_for_do(recall, few):
    with pytest.raises(InputError, match="validation nodes of the class, or more") as raised:
        least_probability(f"recall={recall}", np.full(few, 0.5), np.ones(few, bool))
    least = int(str(raised.value).split()[1])
    assert few < least <= 100
    assert least_probability(f"recall={recall}", np.full(least, 0.5), np.ones(least, bool)) == 0.5
    assert covered_between(recall, least)[0] >= recall / 2


def test_the_smallest_coverage_still_takes_one_node():
    assert needed(1e-12, 50) == 1
    assert np.isfinite(covered_between(1e-12, 50)).all()


@pytest.mark.parametrize("positive", [0, 1, 3, 200])
def test_the_least_cost_follows_from_probabilities_whatever_labels_say(positive):
    """With few or no positive nodes among 200 another threshold can look cheaper by many standard errors, and is not."""
    chances = np.linspace(0.005, 0.995, 200)
    assert least_probability("cost=1:4", chances, np.arange(200) >= 200 - positive) == 0.2
    assert least_probability("cost=1:1000", 0.01 * chances, np.arange(200) < positive) == 1 / 1001
    assert least_probability("cost=1:4", chances[:0], np.zeros(0, bool)) == 0.2


def test_a_threshold_may_be_a_number():
    assert least_probability(0.3, np.zeros(0), np.zeros(0, bool)) == 0.3
    assert least_probability("0.3", np.zeros(0), np.zeros(0, bool)) == 0.3


def test_public_numbers_follow_from_ids_alone_and_look_drawn():
    found = public_numbers(["a", "b", 7])
    assert public_numbers([7, "a"]).tolist() == [found[2], found[0]]
    share = public_numbers(range(4000)) / 2**64
    assert np.histogram(share, 4, (0, 1))[0] == pytest.approx([1000] * 4, abs=120)


def test_balanced_classes_are_those_of_a_population_with_as_many_nodes_of_each():
    table = np.array([[0.7, 0.2, 0.1], [0.94, 0.05, 0.01], [0.5, 0.4, 0.1]])
    labels = np.array([0] * 79 + [1] * 14 + [2] * 4)  # counted 80, 15 and 5
    assert balanced(table, labels).tolist() == [2, 0, 1]
    assert balanced(table, np.array([0, 1, 2])).tolist() == table.argmax(axis=1).tolist()
    assert balanced(table, np.array([0, 1])).tolist() == [0, 0, 0]  # of no node of class 2 it is not most probable
