"""Scores of attacks: areas and rates on hand-made scores, and intervals that cover the truth as often as they say."""

import numpy as np
import pytest
from scipy.stats import norm

from sfumato.attacks._scores import Attacked, Scores
from sfumato.errors import InputError


def test_an_area_below_one_half_stays_there():
    assert Scores(np.array([0.0, 0.1]), np.array([0.2, 0.3])).auc().value == 0.0


def test_ties_count_half():
    assert Scores(np.zeros(3), np.zeros(5)).auc().value == 0.5


@pytest.mark.parametrize(("fpr", "others"), [(0.01, 1000), (0.001, 10_000), (0.01, 200)])
def test_intervals_of_rare_rates_cover_the_truth(fpr, others):
    draw, truth = np.random.default_rng(0), norm.sf(norm.isf(fpr) - 1)
    found = [Scores(draw.normal(1, 1, 1000), draw.normal(0, 1, others)).tpr_at(fpr) for _ in range(200)]
    assert np.mean([one.low <= truth <= one.high for one in found]) >= 0.93


def test_the_area_is_covered():
    draw, truth = np.random.default_rng(1), norm.cdf(1 / 2**0.5)
    found = [Scores(draw.normal(1, 1, 100), draw.normal(0, 1, 100)).auc() for _ in range(300)]
    assert 0.9 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.99


def test_rates_that_so_few_others_cannot_show_are_not_told():
    draw = np.random.default_rng(2)
    told = Attacked("a", "b", "c", Scores(draw.normal(size=50), draw.normal(size=99))).to_dict()
    assert told["tpr_at_1pct_fpr"] is None
    assert told["baseline_name"] == "a guess"
    assert (
        Attacked("a", "b", "c", Scores(draw.normal(size=50), draw.normal(size=100))).to_dict()["tpr_at_1pct_fpr"]
        is not None
    )


@pytest.mark.parametrize("wrong", [[], [np.nan], [np.inf]])
def test_scores_that_are_none_are_refused(wrong):
    with pytest.raises(InputError, match="finite scores"):
        Scores(np.array(wrong), np.array([1.0]))
