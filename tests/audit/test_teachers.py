"""Votes of teachers who are trained again: honest answers stand near their claim, and what says more is refuted."""

import numpy as np
import pytest
from audit_others import OTHERS

from sfumato.audit import _teachers as audited
from sfumato.audit._teachers import audit_teachers
from sfumato.pate import _teachers as teachers
from sfumato.pate._aggregation import GNMax, LNMax
from sfumato.pate._teachers import train_each

DELTA = 1e-6


def found(mechanism, queries, runs=1000):
    return audit_teachers(mechanism, queries=queries, delta=DELTA, runs=runs)


@pytest.mark.parametrize(("behind", "counts"), [(1, ([13, 12], [12, 13])), (2, ([12, 13], [11, 14]))])
def test_one_record_moves_one_vote_on_every_query(behind, counts):
    for label, expected in enumerate(counts):
        x, y, ids = audited._records(behind, label)
        trained = train_each(lambda _: audited.Nearest(), x, y, ids, num_teachers=25, num_classes=2)
        assert trained.votes(np.zeros((3, 1))).tolist() == [expected] * 3
    first, second = (audited._records(behind, label)[1] for label in (0, 1))
    assert np.count_nonzero(first != second) == 1


@pytest.mark.parametrize(("mechanism", "queries", "share"), [(LNMax(0.5), 1, 0.2), (GNMax(22.0), 200, 0.15)])
def test_answers_keep_their_claim_and_much_of_it_is_seen(mechanism, queries, share):
    result = found(mechanism, queries)
    assert share < result.epsilon_lower_bound / result.claimed < 1
    assert not result.flagged


class TooQuiet(GNMax):
    def aggregate(self, votes, key=None):
        return GNMax(self.noise_stddev / 2).aggregate(votes, key)


def test_half_of_the_noise_is_flagged():
    assert found(TooQuiet(22.0), 200, 2000).flagged


def test_a_record_that_several_teachers_learn_from_is_flagged(monkeypatch):
    real = teachers.parts

    def shared(ids, num_teachers, seed=0):
        own = real(ids, num_teachers, seed)
        return [*own[:-2], own[0], own[0]]

    monkeypatch.setattr(teachers, "parts", shared)
    assert found(GNMax(22.0), 200).flagged


@pytest.mark.audit
@pytest.mark.parametrize(("name", "unit", "measure"), OTHERS, ids=[f"{name}, {unit}" for name, unit, _ in OTHERS])
def test_half_of_the_claim_is_certified_but_for_many_columns(name, unit, measure):
    result = measure()
    assert not result.flagged
    assert result.epsilon_lower_bound > (0.5 if name != "OneBit, 64 columns" else 0) * result.claimed
