"""Whether and how a device reports tells nothing of its value: no entry stops a randomizer or changes what it draws."""

import inspect
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse

from sfumato import randomizers as rz
from sfumato.errors import InputError
from sfumato.noise.coins import SecretWords
from sfumato.randomizers._randomized_response import Labels
from sfumato.randomizers._randomizer import Randomizer
from sfumato.randomizers._values import dense

RANGE = {"low": -1.0, "high": 3.0}
SETTINGS = {
    rz.MultiBit: [rz.MultiBit(4, 1.0, **RANGE), rz.MultiBit(4, 1.0, sampled=3, **RANGE)],
    rz.OneBit: [rz.OneBit(4, 1.0, **RANGE)],
    rz.PGC: [rz.PGC(4, 1.0, **RANGE)],
    rz.Piecewise: [rz.Piecewise(4, 1.0, sampled=2, **RANGE), rz.Piecewise(4, 1.0, sampled=4, **RANGE)],
    rz.Laplace: [rz.Laplace(4, 1.0, **RANGE)],
    rz.Gaussian: [rz.Gaussian(4, 1.0, **RANGE)],
    rz.Collision: [rz.Collision(4, 1.0, cap=2)],
    rz.Direction: [rz.Direction(4, 1.0, norm=2.0)],
    rz.PrivUnit: [rz.PrivUnit(4, 1.0, norm=2.0, candidates=8)],
    rz.Sketch: [rz.Sketch(4, rz.MultiBit(2, 1.0, **RANGE)), rz.Sketch(4, rz.Direction(2, 1.0, norm=2.0))],
    rz.RandomizedResponse: [rz.RandomizedResponse(5, 1.0)],
    rz.SubsetSelection: [rz.SubsetSelection(5, 1.0)],
    rz.UnaryEncoding: [rz.UnaryEncoding(5, 1.0)],
    rz.LocalHashing: [rz.LocalHashing(5, 1.0)],
}
ALL = [randomizer for several in SETTINGS.values() for randomizer in several]
NUMBERS = np.nan, np.inf, -np.inf, -5.0, 7.0, 1e39, -1e300, 5e-324, np.finfo(np.float64).max
LABELS = -1, 5, 6, -(2**62), 2**62
VALID = np.array([[0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])


class Counted(SecretWords):
    """A source that counts the bytes it gave."""

    def __init__(self):
        super().__init__(bytes(32))
        self.given = 0

    def bytes(self, count):
        self.given += count
        return super().bytes(count)


def report(randomizer, values):
    source = Counted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reports = randomizer.encode(values, source)
    return reports, source.given


def same(one, two):
    (left, words), (right, more) = one, two
    assert words == more
    for name in ("values", "indices", "users"):
        first, second = getattr(left, name), getattr(right, name)
        assert (first is None) == (second is None)
        assert first is None or (first.dtype == second.dtype and np.array_equal(first, second))


def wrong_values(randomizer):
    """Values with one wrong entry at every place, of every kind and width that holds it."""
    if isinstance(randomizer, Labels):
        for place in range(3):
            for wrong in LABELS:
                values = np.array([0, 3, 4])
                values[place] = wrong
                yield values
        yield np.array([2**64 - 1, 0, 2**63], np.uint64)
        yield np.array([-128, 127, 5], np.int8)
        return
    for place in np.ndindex(VALID.shape):
        for wrong in NUMBERS:
            values = VALID.copy()
            values[place] = wrong
            yield values
            yield sparse.csr_matrix(values)
    with np.errstate(over="ignore"):
        for kind in (np.float16, np.float32, np.longdouble):
            yield np.array([NUMBERS[:4], NUMBERS[4:8], (0, 1, np.nan, np.inf)]).astype(kind)
    yield np.full((3, 4), np.iinfo(np.int64).min)
    yield np.full((3, 4), np.iinfo(np.uint64).max)


def check(randomizer):
    """Every wrong value gets, coin for coin, the report of the allowed value that it counts as."""
    usual = np.array([0, 3, 4]) if isinstance(randomizer, Labels) else VALID
    valid, words = report(randomizer, usual)
    drawn_again = isinstance(randomizer, rz.Collision | rz.LocalHashing)  # a bucket that is hit already is drawn again
    for values in wrong_values(randomizer):
        found = report(randomizer, values)
        same(found, report(randomizer, randomizer.clipped(values)))
        assert found[0].values.shape == valid.values.shape
        assert drawn_again or found[1] == words


@pytest.mark.parametrize("randomizer", ALL, ids=str)
def test_every_value_has_a_report(randomizer):
    check(randomizer)


def test_no_randomizer_is_left_out():
    exported = {getattr(rz, name) for name in rz.__all__}
    found = {
        one for one in subclasses(Randomizer) if one.__module__.startswith("sfumato.") and not inspect.isabstract(one)
    }
    assert found == set(SETTINGS) <= exported


def subclasses(kind):
    return {kind, *(deeper for one in kind.__subclasses__() for deeper in subclasses(one))}


@pytest.mark.parametrize("randomizer", [one for one in ALL if not isinstance(one, Labels)], ids=str)
def test_repeated_and_unsorted_entries_of_a_sparse_matrix_are_their_sum(randomizer):
    """Row 0 is (nan, 0, 2, 0) unsorted, row 1 says inf - inf in one place, row 2 adds 0.5 + 0.5."""
    data = np.array([2.0, np.nan, np.inf, -np.inf, 0.5, 0.5])
    matrix = sparse.csr_matrix((data, [2, 0, 1, 1, 3, 3], [0, 2, 4, 6]), (3, 4))
    clean = np.array([[np.nan, 0, 2, 0], [0, np.nan, 0, 0], [0, 0, 0, 1]])
    same(report(randomizer, matrix), report(randomizer, clean))
    for kind in (matrix.tocoo(), matrix.tocsc(), sparse.csr_array(matrix)):
        same(report(randomizer, kind), report(randomizer, clean))


@pytest.mark.parametrize("randomizer", ALL, ids=str)
def test_what_is_refused_is_public_and_refused_before_a_coin(randomizer):
    labels = isinstance(randomizer, Labels)
    good = np.array([0, 1, 2]) if labels else VALID
    narrow = good.reshape(1, -1) if labels else good[:, 1:]
    for wrong in (good.tolist(), good.astype(str), good.astype(object), good[:, None], narrow, good.astype(complex)):
        source = Counted()
        with pytest.raises(InputError, match="labels" if labels else "values") as caught:
            randomizer.encode(wrong, source)
        assert source.given == 0
        assert "\n" not in str(caught.value)
    if isinstance(randomizer, rz.Direction | rz.PrivUnit | rz.Collision):
        source = Counted()
        with pytest.raises(InputError, match="users"):
            randomizer.encode(good, source, np.array([0, 1, -1]))
        assert source.given == 0
    assert len(randomizer.encode(good[:0], Counted())) == 0


def test_links_that_are_no_numbers_are_no_links():
    source, other = Counted(), Counted()
    lists = np.array([[0.0, np.nan, 1.0], [np.inf, 0.0, -1.0], [0.0, 0.0, np.nan]])
    clean = np.array([[0, 0, 1], [1, 0, 1], [0, 0, 0]])
    one = rz.NeighborLists(2.0).encode(sparse.csr_matrix(lists), source)
    two = rz.NeighborLists(2.0).encode(sparse.csr_matrix(clean), other)
    assert np.array_equal(one.bits, two.bits)
    assert source.given == other.given


@dataclass(frozen=True)
class RefusesWhatItDraws(rz.MultiBit):
    def encode(self, values, source, users=None):
        reports = super().encode(values, source)
        if np.isnan(dense(values)[np.arange(len(reports))[:, None], reports.indices]).any():
            raise InputError("NaN")
        return reports


@dataclass(frozen=True)
class DrawsAgain(rz.OneBit):
    def encode(self, values, source, users=None):
        if np.isnan(dense(values)).any():
            source.bytes(8)
        return super().encode(values, source)


@dataclass(frozen=True)
class LeavesOut(rz.OneBit):
    def encode(self, values, source, users=None):
        reports = super().encode(values, source)
        return rz.Reports(reports.values[np.isfinite(dense(values)).all(axis=1)])


@dataclass(frozen=True)
class WarnsOf(rz.OneBit):
    def encode(self, values, source, users=None):
        if sparse.issparse(values) and np.isinf(values.data).any():
            warnings.warn("an entry is infinite", stacklevel=2)
        return super().encode(values, source)


@dataclass(frozen=True)
class CountsWrongLabels(rz.UnaryEncoding):
    def encode(self, values, source, users=None):
        reports = super().encode(values, source)
        return rz.Reports(np.where((values >= 0)[:, None], reports.values, 0).astype(np.uint8))


PLANTED = {
    RefusesWhatItDraws: InputError,
    DrawsAgain: AssertionError,
    LeavesOut: AssertionError,
    WarnsOf: UserWarning,
    CountsWrongLabels: AssertionError,
}


@pytest.mark.parametrize("planted", PLANTED)
def test_a_randomizer_whose_report_tells_of_a_wrong_value_fails(planted):
    with pytest.raises(PLANTED[planted]) as caught:
        check(planted(5 if issubclass(planted, Labels) else 4, 1.0))
    assert "to be numbers of shape" not in str(caught.value)
