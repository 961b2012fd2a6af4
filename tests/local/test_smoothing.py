"""Label smoothing: four-node graphs by hand, dense formulas, then a block model."""

import numpy as np
import pytest
import scipy.sparse as sp

from sfumato.errors import InputError
from sfumato.local._heat import HeatKernel, WalkKernel, heat, lanczos, normalized_adjacency, typical_width
from sfumato.local._propagation import PROPAGATIONS, best_propagation, propagate_labels
from sfumato.local._smoothed import class_prior
from sfumato.local._smoothing import HeatKernelRidge, WalkKernelRidge
from sfumato.noise.coins import SecretWords
from sfumato.randomizers import SubsetSelection

TWO_PAIRS = sp.csr_matrix([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]])
ENDS_KNOWN = np.array([True, False, True, False])
ENDS = np.array([0, -1, 1, -1])
SMALL = HeatKernelRidge(widths=(4.0, 16.0), shares=(0.3, 0.9), folds=2)


def response(epsilon, num_classes):
    keep = np.exp(epsilon) / (np.exp(epsilon) + num_classes - 1)
    rest = (1 - keep) / (num_classes - 1)
    return np.full((num_classes, num_classes), rest) + (keep - rest) * np.eye(num_classes)


def block_model(seed=0, sizes=(60, 60, 60), inside=0.15, outside=0.01):
    generator = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(sizes)), sizes)
    linked = np.triu(generator.random((len(y), len(y))) < np.where(y[:, None] == y, inside, outside), 1)
    return sp.csr_matrix((linked | linked.T).astype(np.float32)), y


def reports(y, transition, seed, share=0.75):
    generator = np.random.default_rng(seed)
    known = generator.random(len(y)) < share
    drawn = (generator.random((len(y), 1)) > transition[y].cumsum(axis=1)[:, :-1]).sum(axis=1)
    return np.where(known, drawn, -1), known


def accuracy(probabilities, y, known):
    return (probabilities[~known].argmax(axis=1) == y[~known]).mean()


def test_heat_product_is_the_matrix_exponential():
    adjacency, _ = block_model(sizes=(10, 10))
    step = normalized_adjacency(adjacency)
    values, vectors = np.linalg.eigh(step.toarray().astype(float))
    for width in (0.5, 8.0, 120.0):
        exact = (vectors * np.exp(-width * (1 - values))) @ vectors.T
        np.testing.assert_allclose(heat(step, width, np.eye(20, dtype=np.float32)), exact, atol=1e-4)
    assert np.abs(heat(step, 8.0, np.eye(20, dtype=np.float32)) - exact).max() > 0.01  # another width is noticed


def test_lanczos_solves_and_integrates():
    adjacency, _ = block_model(sizes=(15, 15))
    kernel = HeatKernel(normalized_adjacency(adjacency), 4.0, seed=0)
    known = np.arange(30) < 20
    start = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32) * known[:, None]
    rows = (kernel @ np.eye(30, dtype=np.float32)).astype(float)[:, :20]
    dense = rows[:20]
    images, nodes, vectors = lanczos(kernel, known[:, None], start, 20)
    size = np.linalg.norm(start[:, 0].astype(float))
    inverse = 1 / (nodes[0] + 0.5)
    applied = size * images[:, :, 0].T @ (vectors[0] @ (vectors[0, 0] * inverse))
    exact = rows @ np.linalg.solve(dense + 0.5 * np.eye(20), start[:20, 0])
    np.testing.assert_allclose(applied, exact, rtol=1e-2, atol=1e-2)
    log_form = size**2 * (vectors[0, 0] ** 2 * np.log(nodes[0] + 0.5)).sum()
    values, columns = np.linalg.eigh(dense)
    exact = ((columns.T @ start[:20, 0]) ** 2 * np.log(np.maximum(values, 0) + 0.5)).sum()
    assert log_form == pytest.approx(exact, rel=1e-2, abs=1e-2)


def test_kernel_gives_every_node_variance_near_one():
    star = sp.lil_matrix((12, 12))
    star[0, 1:11] = star[1:11, 0] = 1  # node 11 is isolated
    kernel = HeatKernel(normalized_adjacency(star.tocsr()), 20.0, seed=0)
    diagonal = np.diag(kernel @ np.eye(12, dtype=np.float32))
    assert np.all((diagonal > 0.5) & (diagonal < 2))
    assert diagonal[11] == pytest.approx(1, abs=1e-3)


def test_walk_kernel_counts_walks_to_the_same_nodes():
    adjacency, _ = block_model(sizes=(15, 15), inside=0.5)
    step = normalized_adjacency(adjacency, self_loops=False)
    square = step.toarray().astype(float)
    for hops in (1, 2):
        found = WalkKernel(step, hops, seed=0) @ np.eye(30, dtype=np.float32)
        power = np.linalg.matrix_power(square, 2 * hops)
        scale = np.sqrt(np.diag(found) / np.diag(power))
        np.testing.assert_allclose(found, scale[:, None] * power * scale, atol=1e-4)
        assert np.all((np.diag(found) > 0.5) & (np.diag(found) < 2))


def test_typical_width_leaves_as_many_directions_as_asked_for_beside_the_components():
    one, _ = block_model(sizes=(40, 40), inside=0.15, outside=0.05)
    pair = sp.block_diag([one, one, sp.csr_matrix((7, 7))]).tocsr()
    for adjacency, components in ((one, 1), (pair, 9)):
        step = normalized_adjacency(adjacency)
        assert sp.csgraph.connected_components(step)[0] == components
        values = np.linalg.eigvalsh(step.toarray().astype(float))
        traces = [np.exp(-typical_width(step, 15.0, seed) * (1 - values)).sum() - components for seed in range(10)]
        assert np.mean(traces) == pytest.approx(15, rel=0.1)
    assert typical_width(normalized_adjacency(sp.csr_matrix((5, 5))), 15.0, 0) == pytest.approx(1, abs=1e-3)


def test_unlike_neighbors_are_told_apart_by_walks_alone():
    adjacency, y = block_model(inside=0.01, outside=0.1)
    transition = response(2.0, 3)
    found = {}
    for model in (HeatKernelRidge(), WalkKernelRidge()):
        runs = [reports(y, transition, seed) for seed in range(5)]
        right = [accuracy(model.fit(adjacency, r, k, transition).probabilities, y, k) for r, k in runs]
        found[type(model)] = np.mean(right)
    assert found[WalkKernelRidge] > found[HeatKernelRidge] + 0.2


def test_class_prior_shrinks_with_the_noise():
    labels, known = np.array([0] * 90 + [1] * 10), np.ones(100, bool)
    assert class_prior(labels, known, np.eye(2))[0] == pytest.approx(0.9, abs=0.01)
    assert class_prior(labels, known, np.eye(2))[0] != 0.9  # but by the noise of the 100 draws alone
    even = np.array([0] * 52 + [1] * 48)
    assert class_prior(even, known, response(0.5, 2)).tolist() == [0.5, 0.5]


def test_class_prior_debiases():
    y, transition = np.array([0] * 30000 + [1] * 10000), response(1.0, 2)
    noisy, known = reports(y, transition, seed=0, share=1.0)
    assert class_prior(noisy, known, transition)[0] == pytest.approx(0.75, abs=0.02)
    assert class_prior(noisy, known, np.eye(2))[0] < 0.7  # taking reports for labels is biased


def test_one_hop_by_hand():
    scores = propagate_labels(TWO_PAIRS, ENDS, ENDS_KNOWN, np.eye(2), hops=1)
    np.testing.assert_allclose(scores, [[0.5, 0.5], [1, 0], [0.5, 0.5], [0, 1]])


def test_restart_mixes_by_hand():
    scores = propagate_labels(TWO_PAIRS, ENDS, ENDS_KNOWN, np.eye(2), hops=1, restart=0.4)
    np.testing.assert_allclose(scores[:2, 0], [0.5 + 0.4 * 0.5, 0.5 + 0.4 * 0.6 * 0.5])


def test_four_nodes_take_the_class_of_their_pair():
    smoothed = SMALL.fit(TWO_PAIRS, ENDS, ENDS_KNOWN, np.eye(2))
    assert smoothed.probabilities.argmax(axis=1).tolist() == [0, 0, 1, 1]
    np.testing.assert_allclose(smoothed.probabilities.sum(axis=1), 1)
    assert set(smoothed.log_weights) == {(t, a) for t in (4.0, 16.0) for a in (0.3, 0.9)}
    assert smoothed.log_weights[smoothed.width, smoothed.share] == smoothed.evidence


def test_matches_the_dense_formula():
    adjacency, y = block_model(sizes=(15, 15))
    transition = response(2.0, 2)
    noisy, known = reports(y, transition, seed=1)
    model = HeatKernelRidge(widths=(4.0,), shares=(0.6,), steps=40)
    smoothed = model.fit(adjacency, noisy, known, transition)
    kernel = HeatKernel(normalized_adjacency(adjacency), 4.0, seed=0) @ np.eye(30, dtype=np.float32)
    prior = class_prior(noisy, known, transition)
    inverse, seen = np.linalg.inv(transition), prior @ transition
    z = inverse[noisy[known], 0] - prior[0]
    total = (inverse.T @ (np.diag(seen) - np.outer(seen, seen)) @ inverse)[0, 0]
    weight = 0.6 * prior[0] * (1 - prior[0]) / total
    inner = weight * kernel[np.ix_(known, known)] + (1 - weight) * np.eye(known.sum())
    mean = np.maximum(prior[0] + weight * kernel[:, known] @ np.linalg.solve(inner, z), 0.01)
    rest = np.maximum(1 - prior[0] - weight * kernel[:, known] @ np.linalg.solve(inner, z), 0.01)
    found, dense = np.log(smoothed.probabilities[:, 0] / smoothed.probabilities[:, 1]), np.log(mean / rest)
    power = (found @ dense) / (dense @ dense)
    assert min(abs(power - np.array([0.5, 1, 1.5, 2, 3, 4]))) < 0.01  # equal up to the power of the calibration
    np.testing.assert_allclose(found, power * dense, atol=0.02 * np.abs(found).max())


@pytest.mark.parametrize("model", [HeatKernelRidge(), HeatKernelRidge(widths=(4.0, 15.0, 60.0))])
def test_block_model_is_recovered_and_noise_costs(model):
    means = []
    for epsilon in (0.1, 1.0, 4.0):
        adjacency, y = block_model()
        transition = response(epsilon, 3)
        runs = [(reports(y, transition, seed), seed) for seed in range(8)]
        means.append(
            np.mean([accuracy(model.fit(adjacency, r, k, transition).probabilities, y, k) for (r, k), _ in runs])
        )
    assert means[0] < means[1] < means[2] + 0.01
    assert means[0] < 0.75
    assert means[1] > 0.85
    assert means[2] > 0.95


def test_beats_the_reports_of_the_nodes_themselves():
    adjacency, y = block_model()
    transition = response(1.0, 3)
    noisy, known = reports(y, transition, seed=0)
    smoothed = SMALL.fit(adjacency, noisy, known, transition)
    assert (smoothed.probabilities[known].argmax(axis=1) == y[known]).mean() > (noisy == y)[known].mean() + 0.1


def test_probabilities_are_calibrated():
    adjacency, y = block_model(inside=0.08, outside=0.02)
    transition, confidence, hits = response(1.0, 3), [], []
    for seed in range(10):
        noisy, known = reports(y, transition, seed)
        probabilities = HeatKernelRidge().fit(adjacency, noisy, known, transition).probabilities[~known]
        confidence.append(probabilities.max(axis=1).mean())
        hits.append((probabilities.argmax(axis=1) == y[~known]).mean())
    assert np.mean(confidence) == pytest.approx(np.mean(hits), abs=0.12)


def test_nothing_is_read_outside_the_mask():
    adjacency, y = block_model()
    transition = response(1.0, 3)
    noisy, known = reports(y, transition, seed=0)
    scrambled = np.where(known, noisy, np.random.default_rng(1).integers(0, 3, len(y)))
    first, second = (SMALL.fit(adjacency, labels, known, transition) for labels in (noisy, scrambled))
    np.testing.assert_array_equal(first.probabilities, second.probabilities)
    assert first.log_weights == second.log_weights
    changed = np.where(known & (y == 0), 1, noisy)
    assert not np.array_equal(first.probabilities, SMALL.fit(adjacency, changed, known, transition).probabilities)


def test_held_out_rows_ignore_the_own_report():
    adjacency, y = block_model()
    transition = response(1.0, 3)
    noisy, known = reports(y, transition, seed=0)
    node = int(np.flatnonzero(known)[0])
    model = HeatKernelRidge(widths=(15.0,), shares=(0.6,))
    before = model.fit(adjacency, noisy, known, transition)
    np.testing.assert_array_equal(before.held_out[~known], before.probabilities[~known])
    flipped = noisy.copy()
    flipped[node] = (noisy[node] + 1) % 3
    after = model.fit(adjacency, flipped, known, transition)
    moved = [np.abs(np.diff([getattr(s, name)[node] for s in (before, after)], axis=0)).max()
             for name in ("held_out", "probabilities")]  # fmt: skip
    assert moved[0] < 0.5 * moved[1]  # only the class prior and the calibration know of it


def test_isolated_nodes_get_the_prior_and_disconnected_parts_are_served():
    adjacency, y = block_model(outside=0.0)
    grown = sp.block_diag([adjacency, sp.csr_matrix((2, 2))]).tocsr()
    transition = response(3.0, 3)
    noisy, known = reports(np.append(y, [0, 0]), transition, seed=0)
    noisy[-2:], known[-2:] = -1, False
    probabilities = SMALL.fit(grown, noisy, known, transition).probabilities
    assert accuracy(probabilities[:-2], y, known[:-2]) > 0.95
    np.testing.assert_allclose(probabilities[-1], probabilities[-2])
    assert probabilities[-1].max() < 0.6


def test_a_class_nobody_reports_stays_possible_and_unlikely():
    adjacency, y = block_model(sizes=(40, 40))
    transition = response(6.0, 3)
    known = np.arange(80) % 4 > 0
    probabilities = SMALL.fit(adjacency, np.where(known, y, -1), known, transition).probabilities
    assert accuracy(probabilities, y, known) > 0.9
    assert np.all((probabilities[:, 2] > 0) & (probabilities[:, 2] < 0.3))


def test_cached_kernels_follow_the_graph():
    model, known = HeatKernelRidge(widths=(4.0,), folds=2), np.array([True, False, True, False])
    model.fit(TWO_PAIRS, ENDS, known, np.eye(2))
    crossed = sp.csr_matrix([[0, 0, 0, 1], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]])
    assert model.fit(crossed, ENDS, known, np.eye(2)).probabilities.argmax(axis=1).tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"adjacency": TWO_PAIRS.toarray()}, "adjacency"),
        ({"adjacency": sp.csr_matrix((3, 3))}, r"\(4, 4\)"),
        ({"adjacency": sp.csr_matrix(np.triu(np.ones((4, 4))))}, "symmetric"),
        ({"noisy_labels": np.array([0.0, 1, 1, 0])}, "integers"),
        ({"noisy_labels": np.array([0, -1, 2, -1])}, r"0\.\.1, got 2"),
        ({"noisy_labels": np.array([-1, -1, 1, -1])}, "got -1"),
        ({"known_mask": np.array([1, 0, 1, 0])}, "known_mask"),
        ({"known_mask": np.zeros(4, bool)}, "at least one report"),
        ({"known_mask": np.array([True, False, False, False])}, "at least 2"),
        ({"transition": np.full((2, 2), 0.5)}, "full rank"),
        ({"transition": np.array([[1.0, 0.5], [0.0, 0.5]])}, "sum to 1"),
        ({"transition": np.eye(1)}, "at least 2"),
    ],
)
def test_wrong_arguments_are_explained(change, message):
    arguments = {"adjacency": TWO_PAIRS, "noisy_labels": ENDS, "known_mask": ENDS_KNOWN, "transition": np.eye(2)}
    with pytest.raises(InputError, match=message):
        SMALL.fit(**{**arguments, **change})


@pytest.mark.parametrize(
    "settings",
    [{"widths": ()}, {"widths": (0.0,)}, {"shares": (1.0,)}, {"folds": 1}, {"steps": 1}],
)
def test_wrong_settings_are_explained(settings):
    with pytest.raises(InputError, match=next(iter(settings)).rstrip("s")):
        HeatKernelRidge(**settings)


@pytest.mark.parametrize("hops", [(), (0,), None])
def test_wrong_hops_are_explained(hops):
    with pytest.raises(InputError, match="hops"):
        WalkKernelRidge(hops=hops)


def test_fewer_reports_than_folds_are_left_out_one_by_one():
    known, labels = np.array([True, True, False, True]), np.array([0, 0, -1, 1])
    smoothed = HeatKernelRidge(widths=(2.0,), folds=5).fit(TWO_PAIRS, labels, known, np.eye(2))
    assert smoothed.probabilities.argmax(axis=1).tolist() == [0, 0, 1, 1]


@pytest.mark.data
def test_cora_at_epsilon_one(data_dir):
    from sfumato.datasets._loading import load_dataset

    graph = load_dataset("planetoid/cora", data_dir=data_dir)
    adjacency = sp.csr_matrix((np.ones(graph.num_arcs), graph.indices, graph.indptr), shape=(2708, 2708))
    transition, model = response(1.0, 7), HeatKernelRidge(widths=(30.0, 60.0))
    found = []
    for seed in range(3):
        noisy, known = reports(graph.y, transition, seed)
        found.append(accuracy(model.fit(adjacency, noisy, known, transition).probabilities, graph.y, known))
    assert np.mean(found) > 0.66


def test_best_propagation_is_one_of_the_tried_and_reads_sets():
    size, labels = 40, SubsetSelection(5, epsilon=2.0)
    y = np.repeat(np.arange(5), size)
    blocks = sp.csr_matrix(np.kron(np.eye(5), np.ones((size, size))) - np.eye(5 * size))
    reports = labels.encode(y, SecretWords(bytes(32))).values[:, 0].astype(np.int64)
    known = np.random.default_rng(1).random(len(y)) < 0.7
    scores = best_propagation(blocks, reports, known, labels.transition)
    assert (scores.argmax(axis=1) == y).mean() > 0.95
    tried = [propagate_labels(blocks, reports, known, labels.transition, **settings) for settings in PROPAGATIONS]
    assert any(np.array_equal(scores, one) for one in tried)


def test_many_sets_of_classes_need_no_matrix_over_them():
    """Eighteen classes have 43,758 sets at epsilon 0.5: a square matrix over them would take 15 GB."""
    labels = SubsetSelection(18, epsilon=0.5)
    y = np.arange(180) % 18
    blocks = sp.csr_matrix((y[:, None] == y).astype(float) - np.eye(180))
    reports = labels.encode(y, SecretWords(bytes(32))).values[:, 0].astype(np.int64)
    smoothed = HeatKernelRidge(widths=(8.0,), shares=(0.9,)).fit(blocks, reports, np.ones(180, bool), labels.transition)
    assert (smoothed.probabilities.argmax(axis=1) == y).mean() > 2 / 18
