"""Neighbor lists end to end: exact coins, Bayes against enumeration and the dense formula, sparse memory, and the choice."""

import tracemalloc
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import chisquare

from sfumato.errors import DataError, InputError
from sfumato.graph._graph import Graph
from sfumato.local._blink import Blink, choose
from sfumato.local._denoising import beliefs, beta_model, denoise, expected_degrees, posterior
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._links import LinkReports, NeighborLists


def symmetric(n, seed=0, share=0.1):
    upper = np.triu(np.random.default_rng(seed).random((n, n)) < share, 1)
    return (upper | upper.T).astype(np.float32)


def unpacked(reports):
    return np.unpackbits(reports.bits, axis=1, count=len(reports), bitorder="little")


def blocks(classes, inside=0.08, across=0.004, seed=0):
    generator = np.random.default_rng(seed)
    chance = np.where(classes[:, None] == classes, inside, across)
    upper = np.triu(generator.random(chance.shape) < chance, 1)
    return (upper | upper.T).astype(np.float32)


class Fixed(SecretWords):
    """A source that hands out given bytes in order."""

    def __init__(self, stream):
        self.stream = stream

    def bytes(self, count):
        taken, self.stream = self.stream[:count], self.stream[count:]
        assert len(taken) == count
        return taken


def test_both_ends_toss_coins_of_their_own():
    n, lists = 400, NeighborLists(2.0)
    reports = lists.encode(sp.csr_matrix((n, n)), SecretWords(bytes(32)))
    bits, flip, pairs = unpacked(reports), float(lists.bit_law[1]), n * (n - 1) / 2

    def both(said):
        seen = (np.triu(said, 1) & np.triu(said.T, 1)).sum()
        return chisquare([seen, pairs - seen], [flip**2 * pairs, (1 - flip**2) * pairs]).pvalue

    assert both(bits) > 1e-6
    assert both(np.triu(bits, 1) | np.triu(bits, 1).T) < 1e-6


def test_reports_hold_no_bit_about_oneself_or_beyond_the_users():
    reports = NeighborLists(0.1).encode(sp.csr_matrix(np.ones((13, 13))), SecretWords(bytes(32)))
    whole = np.unpackbits(reports.bits, axis=1, bitorder="little")
    assert not whole[:, 13:].any()
    assert not whole[np.arange(13), np.arange(13)].any()
    assert 0 < whole.sum() < 13 * 12


def test_almost_no_noise_gives_the_lists_back():
    dense = symmetric(50)
    reports = NeighborLists(200.0).encode(sp.csr_matrix(dense), SecretWords())
    assert (unpacked(reports) == dense).all()
    assert (reports.degrees == dense.sum(1)).all()
    assert (denoise(reports, NeighborLists(200.0), rule="hard").links.toarray() > 0.5).tolist() == (dense == 1).tolist()


@pytest.mark.parametrize("n", [9, 30, 1500])
def test_agreement_counts_both_ends(n):
    bits = np.random.default_rng(n).random((n, n)) < 0.3
    reports = LinkReports(np.zeros(n, np.int64), np.packbits(bits, axis=1, bitorder="little"))
    said = np.vstack([block for _, block in reports.agreement()])
    assert (said == bits.astype(int) + bits.T).all()


@pytest.mark.parametrize("kept", [[0, 3, 8, 9], list(range(10)), [9]])
def test_among_some_users_the_bits_stay(kept, monkeypatch):
    monkeypatch.setattr("sfumato.randomizers._links._PAIRS", 20)
    said = np.random.default_rng(0).integers(0, 2, (10, 10), dtype=np.uint8)
    reports = LinkReports(np.arange(10), np.packbits(said, axis=1, bitorder="little"))
    some = reports.among(np.array(kept))
    assert some.degrees.tolist() == kept
    found = np.unpackbits(some.bits, axis=1, count=len(kept), bitorder="little")
    np.testing.assert_array_equal(found, said[np.ix_(kept, kept)])


def test_posterior_is_bayes_over_all_graphs_of_four_users():
    epsilon, n = 1.3, 4
    keep = expit(epsilon)
    pairs = list(combinations(range(n), 2))
    prior = dict(zip(pairs, (0.1, 0.5, 0.03, 0.9, 0.2, 0.4), strict=True))
    reports = symmetric(n, 1, 0.5).astype(int)
    reports[0, 1], reports[1, 0], reports[2, 3], reports[3, 2] = 1, 0, 0, 0
    mass, total = dict.fromkeys(pairs, 0.0), 0.0
    for links in product((0, 1), repeat=len(pairs)):
        chance = 1.0
        for (i, j), link in zip(pairs, links, strict=True):
            chance *= prior[i, j] if link else 1 - prior[i, j]
            for said in (reports[i, j], reports[j, i]):
                chance *= keep if said == link else 1 - keep
        total += chance
        for pair, link in zip(pairs, links, strict=True):
            mass[pair] += chance * link
    for i, j in pairs:
        ours = posterior(np.array(prior[i, j]), epsilon)[reports[i, j] + reports[j, i]]
        assert ours == pytest.approx(mass[i, j] / total, rel=1e-9)


def dense_denoise(reports, lists, groups, rule):
    """The formulas pair by pair, on n x n floats."""
    n = len(reports)
    degrees = 2.0 ** (
        np.round(8 * np.log2(np.maximum(expected_degrees(reports.degrees, float(lists.degree_epsilon)), 0.25))) / 8
    )
    beta = np.log(degrees) - 0.5 * np.log(degrees.sum())
    for _ in range(200):
        terms = 1 / (np.exp(-beta)[None, :] + np.exp(beta)[:, None])
        beta = np.log(degrees) - np.log(terms.sum(1) - np.diag(terms))
    prior = expit(beta[:, None] + beta)
    agreement = unpacked(reports).astype(int) + unpacked(reports).T
    upper = np.triu(np.ones((n, n), bool), 1)
    keep, flip = map(float, lists.bit_law)
    if groups is not None:
        same = groups[:, None] == groups
        for part in (same, ~same):
            part = part & upper
            found = (agreement[part].sum() / 2 - flip * part.sum()) / (keep - flip)
            factor = np.clip(found / prior[part].sum(), 0.05, 20)
            prior = np.where(part | part.T, prior * factor, prior)
        prior = np.minimum(prior, 0.999)
    under = prior * np.choose(agreement, [flip**2, keep * flip, keep**2])
    none = (1 - prior) * np.choose(agreement, [keep**2, keep * flip, flip**2])
    chance = np.where(upper, under / (under + none), 0)
    if rule == "hard":
        kept = chance > 0.5
    else:
        least = [v for v in np.unique(chance[upper].round(9)) if (chance[upper] >= v - 1e-9).sum() <= chance.sum()]
        kept = upper & (chance >= min(least, default=2) - 1e-9)
    return np.where(kept, chance, 0) + np.where(kept, chance, 0).T, chance.sum()


@pytest.mark.parametrize("rule", ["expected", "hard"])
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("epsilon", [1.0, 3.0, 6.0])
def test_sparse_result_is_the_dense_formula(epsilon, grouped, rule):
    classes = np.arange(30) % 2
    lists = NeighborLists(epsilon)
    reports = lists.encode(sp.csr_matrix(blocks(classes, 0.4, 0.05)), SecretWords(bytes(32)))
    groups = classes if grouped else None
    found = denoise(reports, lists, groups, rule)
    wanted, expected = dense_denoise(reports, lists, groups, rule)
    assert np.allclose(found.links.toarray(), wanted, atol=1e-6)
    assert found.expected == pytest.approx(expected, rel=1e-9)
    assert found.kept == pytest.approx(wanted.sum() / 2, rel=1e-5)
    assert (epsilon < 6) or found.links.nnz > 50


def test_beta_model_gives_back_its_degrees():
    degrees, counts = np.array([2.0, 5.0, 9.0]), np.array([20, 10, 3])
    table = beta_model(degrees, counts)
    assert np.allclose(table @ counts - table.diagonal(), degrees, atol=1e-6)


def test_expected_degrees_are_nearer_than_noisy_ones():
    truth = np.random.default_rng(0).poisson(4, 800)
    lists = NeighborLists(2.0)
    noise = lists.encode(sp.csr_matrix((800, 800)), SecretWords(bytes(32))).degrees
    ours = expected_degrees(truth + noise, float(lists.degree_epsilon))
    assert ((ours - truth) ** 2).mean() < 0.1 * (noise**2).mean()
    assert ours.mean() == pytest.approx(truth.mean(), abs=0.6)


def test_memory_stays_far_below_a_matrix_of_floats():
    n, lists = 4000, NeighborLists(5.0)
    ring = sp.diags([np.ones(n - 1), np.ones(n - 1)], [-1, 1], format="csr")
    tracemalloc.start()
    found = denoise(lists.encode(ring, SecretWords()), lists)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * n * n, "half of what a matrix of float32 takes"
    assert found.links.nnz < 10 * n


def test_beliefs_read_the_claims_and_keep_what_is_known():
    classes = np.arange(300) % 3
    lists = NeighborLists(4.0)
    reports = lists.encode(sp.csr_matrix(blocks(classes)), SecretWords(bytes(32)))
    generator = np.random.default_rng(0)
    known = generator.random(300) < 0.5
    start = np.log(np.full((300, 3), 1 / 3))
    start[known] = np.log(0.998 * np.eye(3)[classes[known]] + 0.002 / 3)
    found = beliefs(reports, lists, start, known)
    assert (found[known] == start[known]).all()
    assert np.allclose(np.exp(found).sum(1), 1)
    assert (found.argmax(1) == classes)[~known].mean() > 0.8
    blind = LinkReports(reports.degrees, reports.bits[generator.permutation(300)])
    assert (beliefs(blind, lists, start, known).argmax(1) == classes)[~known].mean() < 0.6


def test_choice_keeps_features_alone_unless_clearly_beaten():
    mlp = np.arange(100) < 60
    assert choose({"mlp": mlp, "gcn": np.arange(100) < 64}) == "mlp"
    assert choose({"mlp": mlp, "gcn": np.arange(100) < 65}) == "gcn"
    assert choose({"mlp": mlp, "gcn": ~mlp}) == "mlp"


def graph_of(classes, adjacency, signal, seed=0):
    generator = np.random.default_rng(seed)
    x = generator.standard_normal((len(classes), 8)).astype(np.float32)
    x[:, : classes.max() + 1] += signal * np.eye(classes.max() + 1)[classes]
    source, target = np.nonzero(np.triu(adjacency))
    graph = Graph.from_edges(
        source, target, len(classes), directed=False, x=x, y=classes, classes=tuple(map(str, range(classes.max() + 1)))
    )
    return graph.with_split((0.5, 0.25, 0.25), 0)


def without_links(graph):
    return replace(graph, indptr=np.zeros_like(graph.indptr), indices=graph.indices[:0])


def test_fit_learns_from_reports_and_never_reads_links():
    classes = np.arange(400) % 3
    graph = graph_of(classes, blocks(classes), signal=1.0)
    blink = Blink(epsilon=6.0, epochs=80)
    reports = blink.collect(graph, SecretWords(bytes(32)))
    fit = blink.fit(reports, without_links(graph))
    right = {name: (rows.argmax(1) == graph.y)[graph.test_mask].mean() for name, rows in fit.scores.items()}
    assert fit.chosen != "mlp"
    assert right[fit.chosen] > right["mlp"] + 0.1
    assert (fit.predict() == fit.scores[fit.chosen].argmax(1)).all()


def test_links_that_say_nothing_leave_the_features_alone():
    classes = np.arange(400) % 3
    graph = graph_of(classes, symmetric(400, share=0.02), signal=1.5)
    blink = Blink(epsilon=8.0, epochs=80)
    assert blink.fit(blink.collect(graph, SecretWords(bytes(32))), graph).chosen == "mlp"


def test_wrong_input_is_refused():
    graph = graph_of(np.arange(20) % 2, symmetric(20), 1.0)
    with pytest.raises(InputError, match="degree_share"):
        NeighborLists(1.0, degree_share=1.0)
    with pytest.raises(InputError, match="epsilon"):
        NeighborLists(1e-7)
    with pytest.raises(InputError, match="lists"):
        NeighborLists(1.0).encode(sp.csr_matrix((3, 4)), SecretWords())
    with pytest.raises(InputError, match="rule"):
        Blink(rule="soft")
    directed = Graph.from_edges([0], [1], 3, directed=True)
    with pytest.raises(InputError, match="undirected"):
        Blink().collect(directed, SecretWords())
    reports = Blink().collect(graph, SecretWords())
    with pytest.raises(DataError, match="features"):
        Blink().fit(reports, replace(graph, x=None))
    with pytest.raises(DataError, match="validation"):
        Blink().fit(reports, replace(graph, roles=np.zeros(20, np.uint8)))
