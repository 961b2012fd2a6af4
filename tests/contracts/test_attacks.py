"""What every attack on a fitted model promises: scores with a baseline beside them, that a seed repeats, and a run left alone."""

import copy
import json
from dataclasses import FrozenInstanceError, is_dataclass
from functools import cache

import numpy as np
import pytest

import sfumato as sf
from sfumato.attacks._attack import Attack
from sfumato.attacks._listing import ATTACKS
from sfumato.catalog import method_named
from sfumato.errors import InputError
from sfumato.graph._synthetic import campus
from sfumato.report._cite import references

QUICK = {"membership": {"epochs": 5}, "membership-lira": {"num_shadows": 4}, "membership-rmia": {"num_shadows": 2}}
TELLS = {
    "membership",
    "membership-lira",
    "membership-rmia",
    "membership-confidence",
}  # others take a step
GRAPH = campus(120).with_split((0.4, 0.2, 0.4))
UNIT = sf.NoPrivacy()


@cache
def fitted():
    method = method_named("sage", width=4, epochs=5)
    return method.calibrate(None, UNIT, GRAPH.public_facts(UNIT)).fit(GRAPH)


def made(name):
    return ATTACKS[name](**QUICK.get(name, {}))


def run(name, seed=0, **more):
    return made(name).run(fitted(), GRAPH, seed=seed, **more)


found = cache(run)


@pytest.mark.parametrize("name", ATTACKS)
class TestEveryAttack:
    def test_is_a_frozen_dataclass_that_says_what_it_is(self, name):
        attack, kind = made(name), ATTACKS[name]
        assert issubclass(kind, Attack)
        assert is_dataclass(kind)
        assert kind.name == name
        assert attack == made(name)
        for words in (kind.target, kind.knowledge, kind.summary):
            assert len(words.split()) > 2
            assert "\n" not in words
            assert not words.endswith(".")
        assert kind.citations
        assert set(kind.citations) <= set(references())
        with pytest.raises(FrozenInstanceError):
            attack.name = "another"

    def test_scores_are_finite_and_have_a_baseline_beside_them(self, name):
        attacked = found(name)
        assert (attacked.attack, attacked.target) == (name, ATTACKS[name].target)
        assert attacked.baselines
        for scores in (attacked.scores, *attacked.baselines.values()):
            assert min(len(scores.members), len(scores.others)) > 0
        for baseline in attacked.baselines.values():
            assert len(baseline.members) == len(attacked.scores.members)
            assert len(baseline.others) == len(attacked.scores.others)
        told = json.loads(json.dumps(attacked.to_dict()))
        assert 0 <= told["auc_low"] <= told["auc"] <= told["auc_high"] <= 1

    def test_the_same_seed_gives_the_same_scores(self, name):
        again = run(name)
        np.testing.assert_array_equal(again.scores.members, found(name).scores.members)
        np.testing.assert_array_equal(again.scores.others, found(name).scores.others)

    def test_progress_ends_and_neither_run_nor_graph_changes(self, name):
        target, told = fitted(), []
        weights, released = copy.deepcopy(target.weights), copy.deepcopy(target.released)
        before = [np.array(part) for part in (GRAPH.roles, GRAPH.y, GRAPH.indices, GRAPH.x.data)]
        head = target.ledger.head
        made(name).run(target, GRAPH, seed=1, progress=lambda *step: told.append(step))
        assert told or name not in TELLS
        ends = {stage: (done, total) for stage, done, total in told}
        assert all(done == total > 0 for done, total in ends.values())
        assert target.ledger.head == head
        for kept, now in ((weights, target.weights), (released, target.released)):
            assert kept.keys() == now.keys()
            assert all(np.array_equal(kept[key], now[key]) for key in kept)
        after = (GRAPH.roles, GRAPH.y, GRAPH.indices, GRAPH.x.data)
        assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))

    @pytest.mark.parametrize("seed", [-1, 2**32, 0.5, True])
    def test_a_wrong_seed_is_refused(self, name, seed):
        with pytest.raises(InputError, match="seed"):
            run(name, seed=seed)


def test_the_listing_counts_its_attacks():
    assert len(ATTACKS) == len(list(ATTACKS)) == 9
