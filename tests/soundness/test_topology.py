"""Perturbed topologies: a record is one bit of what is drawn from, the laws are those that are charged, and near misses fail."""

from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import chi2_contingency, chisquare

import sfumato as sf
from sfumato.bounded import _topology as topology
from sfumato.bounded._counting import noisy_counts, unrouted_sensitivity
from sfumato.bounded._topology import (
    Pairs,
    edge_numbers,
    largest_pairs,
    noisy_edge_count,
    pairs_of,
    randomized_pairs,
    sampling_share,
)
from sfumato.bounded.aggregation import Arcs
from sfumato.central._edgerand import EdgeRand
from sfumato.errors import InputError
from sfumato.graph._graph import Graph
from sfumato.loops.kernels import INT16_ONE
from sfumato.noise._geometric import Rate, discrete_laplace, successes
from sfumato.noise.coins import SecretWords
from sfumato.noise.exact import WORDS, hit_share, probabilities

EDGE, ARC = sf.EdgeLevel(directed=False), sf.EdgeLevel(directed=True)
KEY = bytes(range(32))


def graph_of(links, n=4, directed=False):
    sources, targets = np.array(links, np.int64).reshape(-1, 2).T
    return Graph.from_edges(sources, targets, n, directed=directed, self_loops="keep")


def neighbors(directed):
    """All graphs on four nodes (of directed ones, those with up to two arcs), with one edge more; some have a loop."""
    every = [(u, v) for u, v in product(range(4), repeat=2) if (u != v if directed else u < v)]
    for size in range(3 if directed else 6):
        for links in combinations(every, size):
            for more in set(every) - set(links):
                loop = [(0, 0)] * (size % 2)
                yield graph_of([*links, *loop], directed=directed), graph_of([*links, *loop, more], directed=directed)


def moved(unit, directed, numbers=edge_numbers):
    """The most bits in which neighboring graphs differ."""
    most = 0
    for left, right in neighbors(directed):
        pairs = pairs_of(unit, 4)
        most = max(most, len(np.setxor1d(numbers(pairs, left), numbers(pairs, right))))
    return most


@pytest.mark.parametrize(("unit", "directed"), [(EDGE, False), (ARC, True)])
def test_a_record_is_one_bit(unit, directed):
    assert moved(unit, directed) == 1


def test_an_undirected_edge_is_two_bits_if_its_arcs_are_drawn_apart():
    """The mistake of the published implementation, which flips both arcs independently."""
    assert moved(EDGE, False, lambda _, graph: edge_numbers(Pairs(4, directed=True), graph)) == 2


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("n", [1, 2, 5, 40])
def test_pairs_are_numbered_once_and_found_again(n, directed):
    pairs = Pairs(n, directed)
    ends = pairs.ends(np.arange(pairs.total))
    assert len({tuple(pair) for pair in ends.tolist()}) == pairs.total
    assert (ends[:, 0] != ends[:, 1]).all()
    assert directed or (ends[:, 0] < ends[:, 1]).all()
    assert pairs.numbers(*ends.T).tolist() == list(range(pairs.total))


def test_numbers_of_large_graphs_do_not_overflow():
    pairs = Pairs(2_000_000, directed=True)
    last = np.array([pairs.total - 1])
    assert pairs.ends(last).tolist() == [[1_999_999, 1_999_998]]
    assert pairs.numbers(*pairs.ends(last).T).tolist() == last.tolist()


def outcomes(draw, runs=3000):
    """How often each set of the six pairs comes out."""
    source = SecretWords(KEY)
    sets = [draw(source) for _ in range(runs)]
    return np.bincount([int((1 << one).sum()) for one in sets], minlength=64)


def law(present, epsilon, share):
    """Probabilities of all 64 sets if each of six pairs comes out by itself."""
    keep, flip = (float(share * one) for one in probabilities(hit_share(epsilon, 1, 1), 1, 1))
    each = np.where(np.isin(np.arange(6), present), keep, flip)
    bits = np.arange(64)[:, None] >> np.arange(6) & 1
    return np.where(bits, each, 1 - each).prod(axis=1)


SHARE = Fraction(2**63 + 2**61, WORDS)


@pytest.mark.parametrize("share", [Fraction(1), SHARE], ids=["all", "a share"])
@pytest.mark.parametrize("present", [[], [0, 4], [0, 1, 2, 3, 4, 5]], ids=str)
def test_pairs_come_out_by_the_law_that_is_charged(present, share):
    pairs, present = Pairs(4, directed=False), np.array(present, np.int64)
    seen = outcomes(lambda source: randomized_pairs(pairs, present, 1.5, share, source))
    assert chisquare(seen, seen.sum() * law(present, 1.5, share)).pvalue > 1e-4
    for wrong in (1.5 * 2 / 3, 1.5 * 3 / 2):
        assert chisquare(seen, seen.sum() * law(present, wrong, share)).pvalue < 1e-4


@pytest.mark.parametrize("share", [Fraction(1), SHARE, Fraction(1, WORDS)])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 7.0, 40.0])
def test_no_set_is_more_likely_than_epsilon_allows(epsilon, share):
    """Exactly, in fractions: one bit moves the chance of its pair from rho (1 - p) to rho p."""
    keep, flip = (share * one for one in probabilities(hit_share(epsilon, 1, 1), 1, 1))
    most = Fraction(np.exp(epsilon)) * (1 + Fraction(1, 10**12))
    assert keep <= most * flip
    assert 1 - flip <= most * (1 - keep)


@pytest.mark.parametrize(
    "fault",
    [
        lambda rate, source, trials: successes(Rate.of_chance(Fraction(1, 3)), source, trials),
        lambda rate, source, trials: successes(rate, source, trials)[1:],
        lambda rate, source, trials: np.unique(np.append(successes(rate, source, trials), 5)),
    ],
    ids=["another chance", "one is lost", "one always comes"],
)
def test_planted_faults_in_the_flips_are_caught(monkeypatch, fault):
    monkeypatch.setattr(topology, "successes", fault)
    with pytest.raises(AssertionError):
        test_pairs_come_out_by_the_law_that_is_charged([0, 4], Fraction(1))


def test_planted_fault_of_coins_that_present_pairs_share(monkeypatch):
    real = SecretWords.words
    monkeypatch.setattr(SecretWords, "words", lambda self, shape: np.full(shape, real(self, (1,))[0], np.uint64)
                        if shape == (2,) else real(self, shape))  # fmt: skip
    with pytest.raises(AssertionError):
        test_pairs_come_out_by_the_law_that_is_charged([0, 4], SHARE)


def dense(present, epsilon, wanted, source, steps=1 << 20):
    """The largest of all bits after noise, with every bit drawn."""
    rate = Fraction(epsilon) / steps
    bits = discrete_laplace(source, 1 / rate, 6)
    bits[present] += steps
    passed = np.flatnonzero(bits >= topology._threshold(6, float(rate), wanted))
    return np.sort(passed[np.lexsort((passed, -bits[passed]))[:wanted]])


@pytest.mark.parametrize("present", [[], [0, 4]], ids=str)
def test_the_largest_bits_come_out_as_if_all_were_drawn(present):
    pairs, present = Pairs(4, directed=False), np.array(present, np.int64)
    seen = outcomes(lambda source: largest_pairs(pairs, present, 2.0, 2, source))

    def alike(epsilon):
        other = outcomes(lambda source: dense(present, epsilon, 2, source))
        both = np.stack([seen, other])
        return chi2_contingency(both[:, both.sum(axis=0) > 0]).pvalue

    assert alike(2.0) > 1e-4
    if len(present):
        assert alike(3.0) < 1e-4
        assert alike(4 / 3) < 1e-4


def test_nearly_all_wanted_pairs_come_out_and_mostly_the_right_ones():
    pairs = Pairs(2000, directed=False)
    present = np.sort(np.random.default_rng(0).choice(pairs.total, 5000, replace=False))
    for epsilon in (1.0, 12.0):
        assert len(largest_pairs(pairs, present, epsilon, 5000, SecretWords(KEY))) == 5000
    found = largest_pairs(pairs, present, 16.0, 5000, SecretWords(KEY))
    assert np.isin(found, present).mean() > 0.9


def test_the_number_of_edges_moves_by_one_and_has_the_noise_that_is_charged():
    pairs, source = Pairs(200, directed=False), SecretWords(KEY)
    counts = np.array([noisy_edge_count(pairs, np.arange(700), 0.25, source) for _ in range(4000)])
    reach = np.arange(-12, 13)

    def p_value(rate):
        chances = np.tanh(rate / 2) * np.exp(-rate * np.abs(reach))
        seen = np.array([(counts - 700 == x).sum() for x in reach])
        return chisquare(np.append(seen, 4000 - seen.sum()), 4000 * np.append(chances, 1 - chances.sum())).pvalue

    assert p_value(0.25) > 1e-4
    assert p_value(0.25 * 2 / 3) < 1e-4
    assert p_value(0.25 * 3 / 2) < 1e-4
    assert noisy_edge_count(pairs, np.arange(0), 0.001, SecretWords(KEY)) >= 1
    assert noisy_edge_count(pairs, np.arange(pairs.total), 0.001, SecretWords(bytes(32))) <= pairs.total


def test_a_share_leaves_about_what_is_wanted():
    pairs, present = Pairs(3000, directed=False), np.arange(20000) * 7
    share = sampling_share(pairs, 2.0, 20000)
    found = randomized_pairs(pairs, present, 2.0, share, SecretWords(KEY))
    assert abs(len(found) / 20000 - 1) < 0.05
    assert sampling_share(pairs, 2.0, pairs.total) == 1


def test_memory_grows_with_what_comes_out_and_not_with_all_pairs():
    """A million nodes have 5 10^11 pairs."""
    pairs = Pairs(1_000_000, directed=False)
    present = np.sort(np.random.default_rng(1).choice(pairs.total, 50_000))
    found = randomized_pairs(pairs, present, 3.0, sampling_share(pairs, 3.0, 50_000), SecretWords(KEY))
    assert 40_000 < len(found) < 60_000
    assert len(largest_pairs(pairs, present, 3.0, 50_000, SecretWords(KEY))) == 50_000


def test_nothing_wanted_is_refused():
    with pytest.raises(InputError, match="wanted"):
        largest_pairs(Pairs(4, directed=False), np.arange(2), 1.0, 0, SecretWords(KEY))


def test_runs_on_the_same_edges_draw_the_same_and_on_other_edges_anew():
    """With one key: noise depends on the edges, so the difference of two runs does not cancel it."""
    released = []
    for links in ([(0, 1)], [(0, 1)], [(0, 1), (2, 3)]):
        graph = graph_of([*links, *((v, v + 1) for v in range(4, 300))], 302)
        pairs = pairs_of(EDGE, 302)
        present = edge_numbers(pairs, graph)
        session = type("S", (), {"charge": lambda self, name: KEY, "bind": lambda self, name, *arrays: None})()
        coins = EdgeRand._coins(session, "edges", present)
        released.append(randomized_pairs(pairs, present, 1.0, Fraction(1), coins))
    assert released[0].tolist() == released[1].tolist()
    assert len(np.setxor1d(released[0], released[2])) > 1000


@pytest.mark.parametrize(("unit", "directed"), [(EDGE, False), (ARC, True)])
def test_counts_along_all_arcs_move_by_what_is_charged(unit, directed):
    """Every node sends the one-hot row of a class that does not depend on arcs."""
    rows, most = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], 0.0
    for left, right in neighbors(directed):
        sums = [noisy_counts(Arcs(*graph.transpose()), rows, 0.0, KEY) for graph in (left, right)]
        most = max(most, np.abs(sums[0] - sums[1]).sum() / INT16_ONE)
    assert most == unrouted_sensitivity(unit)
