"""Paired comparisons of models on the same test nodes: what they say, what they cannot say, and in which words."""

from math import comb

import numpy as np
import pytest

from sfumato.evaluation._verdict import floor_words, kept_words, verdict, verdict_words
from sfumato.graph._targets import CLASS, NUMBER
from sfumato.nn._metrics import area_by_row, one_against_rest
from sfumato.scoring._answers import Answers, alike_words
from sfumato.scoring._paired import difference, kept_share, mid_p


def nodes_where(**counts):
    """Nodes on which the run is better, worse or the same as the floor."""
    each = np.repeat([1.0, -1.0, 0.0], [counts["won"], counts["lost"], counts["same"]])
    return np.arange(len(each)), each[:, None]


def answered(right, chances, nodes=None, truth=None):
    """What a model says of a binary task: whether each node is right, and the probability of its true class."""
    right, truth = np.asarray(right), np.arange(len(right)) // 2 % 2 if truth is None else truth
    table = np.stack([np.where(truth == label, chances, 1 - np.asarray(chances)) for label in (0, 1)], axis=1)
    rows = np.arange(len(right)) if nodes is None else nodes
    return Answers(CLASS, rows, truth, np.where(right, truth, 1 - truth), table)


@pytest.mark.parametrize(("won", "lost"), [(0, 0), (0, 2), (1, 9), (9, 1), (4, 4), (30, 12)])
def test_mid_p_is_the_binomial_tail_with_half_of_what_was_seen(won, lost):
    n, few = won + lost, min(won, lost)
    tail = sum(comb(n, k) for k in range(few)) + comb(n, few) / 2
    assert mid_p(won, lost) == pytest.approx(min(1.0, 2 * tail / 2**n))


def test_two_nodes_of_1213_say_nothing_and_fifteen_do():
    few, many = (difference([nodes_where(won=0, lost=lost, same=1213 - lost)]) for lost in (2, 15))
    assert (few.clear, many.clear) == (False, True)
    assert few.mean == pytest.approx(-2 / 1213)


def test_one_node_and_no_difference_are_no_verdict():
    assert difference([(np.arange(1), np.ones((1, 1)))]).low is None
    same = difference([(np.arange(9), np.zeros((9, 1)))])
    assert (same.low, same.high, same.p, same.clear) == (0, 0, 1, False)


def test_a_node_that_every_seed_tests_counts_once():
    one = nodes_where(won=30, lost=10, same=60)
    alone, thrice = difference([one]), difference([one] * 3)
    assert (thrice.nodes, thrice.seeds) == (100, 3)
    assert thrice.high - thrice.low == pytest.approx(alone.high - alone.low, rel=0.01)


def test_what_seeds_differ_by_is_part_of_the_error():
    draws = np.random.default_rng(0).normal(0.1, 1, (2, 400, 1))
    agree = difference([(np.arange(400), draws[0]), (np.arange(400, 800), draws[1])])
    apart = difference([(np.arange(400), draws[0] + 1), (np.arange(400, 800), draws[1] - 1)])
    assert apart.mean == pytest.approx(agree.mean)
    assert agree.high - agree.low < 0.5  # about 4 standard errors of 800 nodes
    assert apart.high - apart.low > 5  # one degree of freedom, whatever the number of nodes


@pytest.mark.parametrize(("effect", "low", "high"), [(0.0, 0.02, 0.09), (0.35, 0.7, 1.0)])
def test_intervals_exclude_zero_as_often_as_they_say(effect, low, high):
    """Three seeds over overlapping nodes that each have a difference of their own: 5 % by chance, and most of a real effect."""
    coins, found = np.random.default_rng(7), []
    for _ in range(300):
        own = coins.normal(effect, 1, 150)
        splits = [coins.choice(150, 60, replace=False) for _ in range(3)]
        found.append(difference([(at, (own[at] + coins.normal(0, 0.5, 60))[:, None]) for at in splits]).clear)
    assert low <= np.mean(found) <= high


def test_a_share_needs_a_gain_that_can_be_told_from_chance():
    whole = np.repeat([1.0, 0.0], [30, 70])
    kept = np.repeat([1.0, 0.0], [15, 85])
    found = kept_share([(np.arange(100), np.stack([kept, whole], axis=1))])
    assert found.share == pytest.approx(0.5)
    assert 0.25 < found.low < 0.5 < found.high < 0.75
    noise = np.tile([1.0, -1.0], 50)
    assert kept_share([(np.arange(100), np.stack([kept, noise], axis=1))]) is None
    assert kept_share([(np.arange(100), np.stack([kept, -whole], axis=1))]) is None
    assert kept_share([(np.arange(1), np.ones((1, 2)))]) is None


HALF = np.tile([True, False], 50)
WORSE, MIDDLE, BEST = (np.linspace(low, low + 0.2, 100) for low in (0.3, 0.5, 0.7))


@pytest.mark.parametrize(
    ("run", "floor", "word"),
    [
        (answered(HALF | True, BEST), answered(HALF, MIDDLE), "better"),
        (answered(HALF, WORSE), answered(HALF, MIDDLE), "worse"),
        (answered(HALF & False, BEST), answered(HALF, MIDDLE), "mixed"),
        (answered(HALF, MIDDLE), answered(~HALF, MIDDLE[::-1]), "none"),
        (answered(HALF, MIDDLE), answered(HALF, MIDDLE), "none"),
    ],
)
def test_verdicts_need_a_clear_difference(run, floor, word):
    said = verdict([run], [floor], None)
    assert (said["against_floor"], said["nodes"]) == (word, 100)
    assert "kept" not in said
    if word == "none":
        release = {"command": "sfumato train graph-free --out new", "epsilon": 0.0}
        told = " ".join(floor_words({"verdict": said, "floor_release": release}))
        assert "To release the floor instead: sfumato train graph-free --out new" in told
        assert "spends nothing" in told
    if word == "better":
        assert floor_words({"verdict": said, "floor_release": {"command": "", "epsilon": 0.0}}) == ()


def test_words_of_a_verdict():
    said = verdict([answered(HALF, MIDDLE)], [answered(~HALF, MIDDLE[::-1])], [answered(HALF | True, BEST)])
    assert "no difference that 100 nodes could show" in verdict_words(said)
    assert kept_words(said).startswith("Kept of what the graph adds: 0 % of accuracy [")
    same = verdict([answered(HALF, MIDDLE)], [answered(HALF, MIDDLE)], [answered(HALF, MIDDLE)])
    assert verdict_words(same) == "On 100 test nodes this run and the floor give the same answers."
    assert "so there is no share to keep" in kept_words(same)
    mixed = verdict([answered(HALF & False, BEST)] * 2, [answered(HALF, MIDDLE)] * 2, None)
    assert "test nodes of 2 splits" in verdict_words(mixed)
    assert verdict_words(mixed).endswith("better by log-loss, and worse by accuracy.")
    assert verdict([answered(HALF, MIDDLE)], (), None) is None


def test_a_floor_that_costs_says_so_and_warns_of_the_choice():
    said = {**verdict([answered(HALF, WORSE)], [answered(HALF, MIDDLE)], None), "against_floor": "worse"}
    lines = floor_words({"verdict": said, "floor_release": {"command": "sfumato train linear", "epsilon": 2.0}})
    assert lines[0] == "Release the floor instead: sfumato train linear"
    assert "costs epsilon = 2 beside what this run has spent" in lines[1]
    assert "outside the guarantee" in lines[1]
    assert floor_words({"verdict": said}) == ()


def test_areas_by_row_have_the_mean_and_the_error_of_delong():
    """Against pairs, one by one: 7 rows of a class among 19, with ties."""
    coins = np.random.default_rng(5)
    there, chances = np.arange(19) < 7, coins.integers(0, 8, 19) / 8
    above = chances[there][:, None] - chances[~there][None]
    wins = (above > 0) + 0.5 * (above == 0)
    found = area_by_row(there, chances)
    assert found.mean() == pytest.approx(wins.mean()) == pytest.approx(one_against_rest(there, chances)[0])
    error = np.square(found - found.mean()).sum() / 19**2
    assert error == pytest.approx(wins.mean(axis=1).var() / 7 + wins.mean(axis=0).var() / 12)


def test_ranking_is_compared_where_accuracy_sees_nothing():
    """12 of 200 nodes are looked for: neither model tells the class, and one of them puts it on top."""
    truth = (np.arange(200) < 12).astype(int)
    chances = np.where(truth == 1, 0.3, 0.05) + np.linspace(0, 0.04, 200)
    flat = 0.05 + np.sin(np.arange(200)) / 1000
    run, floor = (
        Answers(CLASS, np.arange(200), truth, np.zeros(200, int), np.stack([1 - one, one], axis=1))
        for one in (chances, flat)
    )
    said = verdict([run], [floor], None)
    assert said["differences"]["accuracy"]["difference"] == 0
    assert said["differences"]["roc_auc"]["low"] > 0.2
    assert said["against_floor"] == "better"


@pytest.mark.parametrize(("won", "lost"), [(5, 0), (6, 0), (7, 0), (8, 0), (9, 1), (14, 4)])
@pytest.mark.parametrize("tests", [1, 3])
def test_an_interval_excludes_zero_where_the_test_at_the_same_level_does(won, lost, tests):
    found = difference([nodes_where(won=won, lost=lost, same=100)], tests=tests)
    assert not found.clear or mid_p(won, lost) < 0.05 / tests
    assert found.low <= found.mean <= found.high
    for shift in (0.15, 0.19, 0.22, 0.25, 0.4):
        one = difference([(np.arange(40), np.linspace(-1, 1, 40)[:, None] + shift)], tests=tests)
        assert one.clear == (one.p < 0.05 / tests)


def test_a_difference_that_all_nodes_have_alike_is_no_evidence():
    found = difference([(np.arange(300), np.full((300, 1), -0.02))])
    assert (found.low, found.high, found.p, found.clear) == (None, None, 1.0, False)
    assert kept_share([(np.arange(300), np.full((300, 2), 0.02))]) is None


def noisy(coins, truth, classes=2, nodes=None):
    """Answers that know the shares of the classes and nothing else."""
    rows = np.exp(
        coins.normal(size=(len(truth), classes)) + np.log(np.bincount(truth, minlength=classes) / len(truth) + 1e-9)
    )
    rows /= rows.sum(axis=1, keepdims=True)
    return Answers(CLASS, np.arange(len(truth)) if nodes is None else nodes, truth, rows.argmax(axis=1), rows)


@pytest.mark.parametrize(
    ("sizes", "seeds"), [((290, 10), 1), ((30, 10), 1), ((390, 10), 3), ((100, 100, 90, 10), 1), ((293, *[1] * 7), 1)]
)
def test_independent_noise_of_one_law_is_a_verdict_in_at_most_one_of_twenty(sizes, seeds):
    coins, truth, runs, said = np.random.default_rng(2), np.repeat(np.arange(len(sizes)), sizes), 200, 0
    for _ in range(runs):
        at = [np.arange(len(truth)) + len(truth) * seed for seed in range(seeds)]
        run, floor = ([noisy(coins, truth, len(sizes), one) for one in at] for _ in range(2))
        said += verdict(run, floor, None)["against_floor"] != "none"
    assert said <= 0.05 * runs


@pytest.mark.parametrize("few", [0, 1, 2, 3, 9])
def test_a_handful_of_nodes_of_a_class_is_no_verdict_and_says_so(few):
    coins, truth = np.random.default_rng(1), np.repeat([0, 1], [300 - few, few])
    told = noisy(coins, truth), noisy(coins, truth)
    said = verdict([told[0]], [told[1]], [told[0]], ("no", "yes"))
    assert list(said["differences"]) == list(said["kept"]) == list(said["graph_adds"]) == ["accuracy"]
    count = {0: "no test node", 1: "1 test node"}.get(few, f"{few} test nodes")
    assert f"AUC and log-loss are not compared: class 'yes' has {count}, and 10 are needed." in verdict_words(said)


def test_small_classes_among_many_are_left_out_of_the_area_alone():
    coins, truth = np.random.default_rng(1), np.repeat([0, 1, 2], [50, 40, 4])
    run, floor = noisy(coins, truth, 3), noisy(coins, truth, 3)
    said = verdict([run], [floor], None, ("a", "b", "c"))
    assert "AUC leaves out class 'c', which has 4 test nodes: 10 are needed." in verdict_words(said)
    areas = [[one_against_rest(truth == label, one.chances[:, label])[0] for label in (0, 1)] for one in (run, floor)]
    assert said["differences"]["roc_auc"]["difference"] == pytest.approx(np.mean(areas[0]) - np.mean(areas[1]))


def test_a_share_whose_interval_says_nothing_is_not_told():
    wide, close = {"share": 1.1, "low": 0.31, "high": 4.11}, {"share": 0.9, "low": 0.8, "high": 1.0}
    words = kept_words({"nodes": 300, "kept": {"accuracy": None, "roc_auc": wide, "log_loss": close}})
    assert words.startswith("Kept of what the graph adds: 90 % of log-loss [80, 100]. How much ")
    assert "to AUC cannot be said with 300 nodes. To accuracy it adds nothing" in words


def test_one_class_for_everybody_is_told():
    chances = np.array([[0.6, 0.4], [0.9, 0.1], [0.6, 0.4]])
    told = chances.argmax(axis=1)
    assert "probabilities alone" in alike_words(told, chances, ("stays", "leaves"))[0]
    assert "'stays': and they have the same" in alike_words(told, chances[[0, 0, 2]], ("stays", "leaves"))[0]
    assert alike_words(np.array([0, 1, 0]), chances, ("a", "b")) == alike_words(told[:1], chances[:1], ("a", "b")) == ()


def test_numbers_are_compared_by_their_squared_error():
    truth = np.arange(20.0)[:, None]
    run, floor = (
        Answers(NUMBER, np.arange(20), truth, truth[:, 0] + off, np.empty((20, 0)))
        for off in (np.linspace(0, 0.2, 20), 1.0)
    )
    said = verdict([run], [floor], None)
    assert said["against_floor"] == "better"
    assert said["differences"]["squared_error"]["difference"] == pytest.approx(-0.99, abs=0.01)
