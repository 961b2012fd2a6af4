"""Estimates are unbiased, their variance is the closed form, reports are small."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import norm

from sfumato import randomizers as rz
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._direction import pad

COUNT = 40000


def target(randomizer, value):
    """What the estimate of one value aims at."""
    if hasattr(randomizer, "num_classes"):
        return np.eye(randomizer.num_classes)[value]
    value = np.asarray(value)[None]
    if isinstance(randomizer, rz.Sketch):
        return target(randomizer.inner, randomizer.project(value)[0])
    if isinstance(randomizer, rz.Collision):
        return randomizer.members(value).toarray()[0]
    if isinstance(randomizer, rz.Direction | rz.PrivUnit):
        return pad(value, randomizer.norm)[0, :-1]
    return randomizer.clipped(value)[0]


def test_unbiased_with_the_stated_variance(case, many):
    randomizer, values = case
    value = values[-3] if not isinstance(randomizer, rz.Collision) else values[0b011000 // 8]
    estimate = randomizer.estimate(many(randomizer, value, COUNT, SecretWords(bytes(32)))).toarray()
    labels = hasattr(randomizer, "num_classes")
    variance = randomizer.variance(np.atleast_1d(value) if labels else np.asarray(value)[None])[0]
    error = estimate - target(randomizer, value)
    assert np.abs(error.mean(axis=0) / np.sqrt(variance / COUNT)).max() < 5
    square = error**2
    assert np.abs((square.mean(axis=0) - variance) / (square.std(axis=0) / np.sqrt(COUNT) + 1e-12)).max() < 5
    assert (variance <= randomizer.variance() * (1 + 1e-9)).all()


def test_pmf_mean_is_the_value_exactly(column_case):
    """Decode every report, weigh by its exact probability: the mean is the value, the spread the closed form."""
    randomizer, values = column_case
    for value in values[:: max(1, len(values) // 5)]:
        pmf = randomizer.pmf(value)
        keys = np.array(list(pmf))
        m, d = randomizer.m, randomizer.num_features
        reports = rz.Reports(keys[:, m:], keys[:, :m]) if m < d else rz.Reports(keys)
        decoded, chance = randomizer.estimate(reports).toarray(), np.array([float(p) for p in pmf.values()])
        np.testing.assert_allclose(chance @ decoded, randomizer.clipped(value), atol=1e-12)
        spread = chance @ (decoded - randomizer.clipped(value)) ** 2
        np.testing.assert_allclose(spread, randomizer.variance(value[None])[0], rtol=1e-10)


def test_published_formulas():
    x = np.array([[0.2, 0.9]])
    e = np.exp(1.0)
    np.testing.assert_allclose(rz.PGC(2, 1.0).variance(x), e / (e - 1) ** 2 + x * (1 - x))  # equation 2.11
    np.testing.assert_allclose(
        rz.Laplace(2, 2.0).variance(), 2 * (2 / 2.0) ** 2, rtol=1e-9
    )  # equation 2.17 with d w / eps
    half = np.exp(0.5)
    continuous = 1 / (half - 1) + (half + 3) / (3 * (half - 1) ** 2)  # on [-1, 1], at its end
    assert rz.Piecewise(1, 1.0, low=-1.0).variance()[0] == pytest.approx(continuous, rel=0.005)
    oue = 4 * e / (e - 1) ** 2
    assert rz.UnaryEncoding(9, 1.0).variance()[0] == pytest.approx(max(oue, 0.25 / (0.5 - 1 / (e + 1)) ** 2))
    assert rz.LocalHashing(1000, 1.0).variance(np.array([0]))[0, 5] == pytest.approx(oue, rel=0.01)
    assert rz.Direction(9, 1.0, norm=3.0).variance()[0] == pytest.approx(np.pi / 2 * 9 / np.tanh(0.5) ** 2)


@pytest.mark.parametrize(
    ("epsilon", "best", "paper", "more"),
    [
        (1, 1, 1, 1),
        (3.0, 1, 1, 1),
        (3.1, 2, 1, 1.011),
        (4, 2, 1, 1.248),
        (4.3, 2, 1, 1.322),
        (8, 4, 3, 1.022),
        (10, 5, 4, 1.008),
    ],
)
def test_number_of_sampled_features(epsilon, best, paper, more):
    """As on the page local; ``more`` is how many times the least variance the printed number has."""
    ours, printed = (rz.MultiBit(1433, epsilon, rule=rule).variance()[0] for rule in ("best", "paper"))
    assert printed / ours == pytest.approx(more, abs=6e-4)
    assert (rz.MultiBit(1433, epsilon).m, rz.MultiBit(1433, epsilon, rule="paper").m) == (best, paper)
    every = [rz.MultiBit(30, epsilon, sampled=m).variance()[0] for m in range(1, 31)]
    assert rz.MultiBit(30, epsilon).variance()[0] == min(every)
    assert rz.MultiBit(2, 100.0, rule="paper").m == 2


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_one_bit_of_one_feature_is_duchis_mechanism(epsilon):
    """Equations 2.18 and 2.19 of Sajadmanesh (2023), and their 2.20 to 2.25: PGC is the same on any range."""
    duchi, e = rz.Duchi(1, epsilon, low=-1.0), np.exp(epsilon)
    assert duchi.realized_epsilon <= epsilon
    for value in (-1.0, -0.3, 0.0, 0.8, 1.0):
        assert float(duchi.pmf(np.array([value]))[1,]) == pytest.approx(0.5 + (e - 1) / (2 * e + 2) * value)
        assert duchi.variance(np.array([[value]]))[0, 0] == pytest.approx(((e + 1) / (e - 1)) ** 2 - value**2)
        scaled = rz.PGC(1, epsilon, low=2.0, high=5.0)
        assert scaled.pmf(np.array([2 + 1.5 * (value + 1)]))[1,] == pytest.approx(
            float(duchi.pmf(np.array([value]))[1,])
        )
    estimates = duchi.estimate(rz.Reports(np.array([[0], [1]], np.uint8))).toarray().ravel()
    assert estimates == pytest.approx([-(e + 1) / (e - 1), (e + 1) / (e - 1)])


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_finite_privunit_is_close_to_the_continuous_one(epsilon):
    gamma = np.linspace(-1, 4, 5001)
    tail = norm.sf(gamma)
    hit = np.exp(epsilon) * tail / (np.exp(epsilon) * tail + 1 - tail)
    along = (norm.pdf(gamma) * (hit / tail - (1 - hit) / (1 - tail))).max()
    finite_variance = rz.PrivUnit(50, epsilon, norm=1.0, candidates=256).variance()[0]
    assert 0.99 < finite_variance * along**2 < 1.1
    assert rz.PrivUnit(50, epsilon, norm=1.0).variance()[0] < rz.Direction(50, epsilon, norm=1.0).variance()[0]


def test_reports_are_small_and_never_dense():
    """A dense row would be a million floats a user: 800 GB for these."""
    users, d = 10**5, 10**6
    values = np.broadcast_to(np.float32(1), (users, d))
    reports = rz.MultiBit(d, 1.0).encode(values, SecretWords())
    assert reports.values.nbytes + reports.indices.nbytes <= 5 * users
    assert rz.MultiBit(1433, 1.0).bits == 12
    estimate = rz.MultiBit(d, 1.0).estimate(reports)
    assert estimate.sparse.nnz == users
    assert rz.MultiBit(1433, 40.0).bits == 18 * 12
    assert rz.OneBit(1433, 1.0).bits == 1433
    assert (rz.Collision(1433, 1.0, cap=30).bits, rz.RandomizedResponse(7, 1.0).bits) == (8, 3)


def test_sparse_and_dense_values_give_the_same_reports():
    rng = np.random.default_rng(0)
    values = (rng.random((50, 40)) < 0.1).astype(np.float32)
    for randomizer in (
        rz.MultiBit(40, 1.0),
        rz.MultiBit(40, 9.0),
        rz.OneBit(40, 1.0),
        rz.Collision(40, 1.0, cap=5),
        rz.Direction(40, 1.0, norm=3.0),
        rz.Piecewise(40, 1.0),
        rz.Laplace(40, 1.0),
        rz.Sketch(40, rz.PrivUnit(8, 1.0, norm=3.0, candidates=8)),
    ):
        one = randomizer.encode(values, SecretWords(bytes(32)))
        two = randomizer.encode(sparse.csr_matrix(values), SecretWords(bytes(32)))
        assert (one.values == two.values).all()
        assert one.indices is None or (one.indices == two.indices).all()


def test_users_fix_hashes_and_directions():
    values = np.ones((4, 6))
    ids = np.array([70, 3, 70, 9])
    for randomizer in (rz.Direction(6, 1.0, norm=1.0), rz.PrivUnit(6, 1.0, norm=1.0), rz.Collision(6, 1.0, cap=6)):
        reports = randomizer.encode(values, SecretWords(bytes(32)), ids)
        together = randomizer.estimate(reports).toarray()
        np.testing.assert_array_equal(together[3:], randomizer.estimate(reports.take(slice(3, 4))).toarray())
    other = rz.Direction(6, 1.0, norm=1.0, collection="another")
    assert not np.allclose(other.directions(ids), rz.Direction(6, 1.0, norm=1.0).directions(ids))


def test_estimate_projects_without_its_dense_form():
    estimate = rz.Estimate(sparse.csr_matrix(np.array([[2.0, 0], [0, -1]])), np.array([0.5, 0.25]))
    weight = np.array([[1.0, 2], [3, 4]])
    np.testing.assert_allclose(estimate @ weight, estimate.toarray() @ weight)


def test_direction_read_at_non_zero_entries_is_the_whole_product():
    values = np.random.default_rng(1).normal(size=(40, 7)) * np.linspace(0, 2, 40)[:, None]  # norms on both sides of 2
    direction, ids = rz.Direction(7, 50.0, norm=2.0), np.arange(len(values))
    signs = (direction.directions(ids) * pad(values, 2.0)).sum(axis=1) >= 0
    assert (direction.encode(values, SecretWords(), ids).values[:, 0] == signs).all()


def test_sketch_keeps_inner_products_on_average():
    matrix = rz.Sketch(300, rz.Direction(64, 1.0, norm=1.0)).matrix
    gram = matrix @ matrix.T
    np.testing.assert_allclose(np.diag(gram), 1)
    assert abs(gram[~np.eye(300, dtype=bool)].mean()) < 0.01
    assert gram[~np.eye(300, dtype=bool)].std() == pytest.approx(1 / 8, rel=0.05)


def test_users_without_a_report_have_the_neutral_row():
    said = rz.Estimate(sparse.csr_matrix(np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 0.0]])), np.array([0.5, 0.25, 0.0]))
    assert said.spread(np.ones(2, bool), np.ones(3)) is said
    reported, neutral = np.array([False, True, True, False]), np.array([7.0, 8.0, 9.0])
    everyone, weight = said.spread(reported, neutral), np.arange(6.0).reshape(3, 2)
    assert everyone.shape == (4, 3)
    assert everyone.sparse.nnz == 3
    rows = everyone.toarray()
    np.testing.assert_array_equal(rows[reported], said.toarray())
    np.testing.assert_array_equal(rows[~reported], [neutral, neutral])
    np.testing.assert_allclose(everyone @ weight, rows @ weight)
    np.testing.assert_array_equal(everyone.shift, neutral - said.offset)


def test_neutral_rows_are_the_middle_of_every_range_or_no_member():
    assert rz.MultiBit(2, 1.0, low=(0.0, -4.0), high=(1.0, 0.0)).neutral.tolist() == [0.5, -2.0]
    assert rz.Collision(3, 1.0, 2).neutral.tolist() == rz.Direction(3, 1.0, 1.0).neutral.tolist() == [0.0, 0.0, 0.0]
