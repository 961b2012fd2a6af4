"""Link stealing finds links of a model without privacy, hardly any at a small epsilon, and repeats no published fault."""

from types import SimpleNamespace

import numpy as np
import pytest

from sfumato.attacks._links import FEATURES, Links, learned_scores
from sfumato.attacks._pairs import DISTANCES
from sfumato.central._baselines import SAGE
from sfumato.central._gap import GAP
from sfumato.errors import InputError
from sfumato.graph._synthetic import stochastic_block_model
from sfumato.privacy.budget import Budget
from sfumato.privacy.units import EdgeLevel, NoPrivacy

GRAPH = stochastic_block_model(300, 3, mean_degree=8, homophily=0.9, num_features=6, seed=1).with_split(seed=0)
ATTACKS = (Links(), Links(known=0.5), Links(known=0.5, features=True))


def fit(method, epsilon=None):
    unit = NoPrivacy() if epsilon is None else EdgeLevel(directed=False)
    budget = None if epsilon is None else Budget(epsilon, 1e-6)
    return method.calibrate(budget, unit, GRAPH.public_facts(unit)).fit(GRAPH)


def saying(rows):
    """A model that says these probabilities."""
    return SimpleNamespace(predict_proba=lambda graph: np.asarray(rows, np.float32))


@pytest.fixture(scope="module")
def plain():
    return fit(SAGE())


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_model_without_privacy_leaks_links_beyond_what_features_say(plain, attack):
    found = attack.run(plain, GRAPH, seed=0)
    assert found.scores.auc().value > 0.72
    assert found.scores.auc().low > found.baselines[FEATURES].auc().high


def test_a_small_epsilon_leaks_far_less(plain):
    """The mean of five fits: now and then the noise happens to separate the classes."""
    attack = Links(distance="euclidean")
    without, *private = (
        attack.run(one, GRAPH, seed=0).scores.auc().value for one in (plain, *(fit(GAP(), 0.1) for _ in range(5)))
    )
    assert np.mean(private) < without - 0.08


def test_all_distances_are_measured_and_one_is_the_score(plain):
    found = Links(distance="canberra").run(plain, GRAPH, seed=0)
    assert found.scores.auc().value == found.measures["auc_canberra"]
    assert set(found.measures) == {f"{prefix}auc_{name}" for prefix in ("", "features_") for name in DISTANCES} | {
        "auc_true_classes"
    }


def test_true_classes_give_what_homophily_gives():
    assert 0.7 < Links().run(saying(np.eye(3)[GRAPH.y]), GRAPH, seed=0).measures["auc_true_classes"] < 0.9


def test_an_attack_that_is_worse_than_chance_is_not_turned_around():
    """Published code reports 1 - AUC for every distance whose AUC is below one half."""
    split = np.array([[1.0, 0], [0, 1.0]])
    bipartite = stochastic_block_model(200, 2, mean_degree=6, homophily=0.0, seed=0)
    found = Links(distance="euclidean").run(saying(split[bipartite.y]), bipartite, seed=0)
    assert found.scores.auc().value < 0.3


def test_constant_predictions_tell_nothing():
    found = Links().run(saying(np.full((300, 3), 1 / 3)), GRAPH, seed=0)
    assert found.scores.auc().value == 0.5
    assert (found.scores.members == -2).all()


def test_a_score_depends_on_no_other_pair_that_is_attacked():
    """Published code fits the scale of the columns once more on the attacked pairs."""
    coins = np.random.default_rng(0)
    known, asked = coins.normal(size=(60, 4)), 5 + 3 * coins.normal(size=(20, 4))
    is_link = known[:, 0] > 0
    whole = learned_scores(known, is_link, asked, seed=3)
    assert learned_scores(known, is_link, asked[:5], seed=3) == pytest.approx(whole[:5], rel=1e-4)
    rescaled = learned_scores(known, is_link, (asked - asked.mean(0)) / asked.std(0) * known.std(0), seed=3)
    assert not np.allclose(rescaled, whole, rtol=0.1)


def test_learning_generalizes_to_pairs_it_never_saw_and_finds_nothing_in_noise():
    coins = np.random.default_rng(1)
    rows, noise = coins.normal(size=(400, 3)), coins.normal(size=(400, 3))
    truth = rows[:, 0] + rows[:, 1] > 0
    right = (learned_scores(rows[:200], truth[:200], rows[200:], 0) > 0) == truth[200:]
    wrong = (learned_scores(noise[:200], truth[:200], noise[200:], 0) > 0) == truth[200:]
    assert right.mean() > 0.85
    assert 0.3 < wrong.mean() < 0.7


def test_the_same_seed_gives_the_same_scores(plain):
    first, again, other = (Links(known=0.5, most=100).run(plain, GRAPH, seed=seed).scores for seed in (4, 4, 5))
    assert (first.members == again.members).all()
    assert not np.array_equal(first.members, other.members)


def test_settings_out_of_range_are_refused(plain):
    with pytest.raises(InputError, match="distance"):
        Links(distance="jaccard")
    with pytest.raises(InputError, match="known"):
        Links(features=True)
    with pytest.raises(InputError, match="known"):
        Links(known=1.0)
    bare = stochastic_block_model(50, 2, num_features=0, mean_degree=5, seed=0)
    one = saying(np.full((50, 2), 0.5))
    assert not Links().run(one, bare, seed=0).baselines
    with pytest.raises(InputError, match="features"):
        Links(known=0.5, features=True).run(one, bare, seed=0)
