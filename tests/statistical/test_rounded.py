"""Every decision of the fast paths is the one that the exact reference takes, whatever further bits it reads."""

import numpy as np
import pytest
from mpmath import mp, mpf

from sfumato.noise import _kernel
from sfumato.noise import _rectangles as rectangles
from sfumato.noise._kernel import KEPT, OPEN, REJECTED
from sfumato.noise._laplace import rounded_laplace
from sfumato.noise._rectangles import GAUSSIAN, LAPLACE, exact, layers
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Stream

LAWS = [GAUSSIAN, LAPLACE]
SCALES = [0.4, 3.3, 216815.3, 1e9]
ONES = 2**128 - 1
LAST = 2**64 - 1
BITS = 10


def fast(law, scale, words, heights):
    """What ``decode`` and ``judge`` say: values, statuses, and whether decode was certain alone."""
    stack = layers(law)
    step = scale * stack.half_width * 2.0**-53
    words, heights = np.array(words, np.uint64), np.array(heights, np.uint64)
    out, where, pending = (
        np.empty(len(words), np.int64),
        np.empty(len(words), np.int32),
        np.empty(len(words), np.uint64),
    )
    count = _kernel.decode(words, step, stack.limit, rectangles._MARGIN, out, where, pending)
    found = where[:count]
    assert np.array_equal(words[found], pending[:count])
    alone = np.ones(len(words), bool)
    alone[found] = False
    assert len(np.unique(found)) == len(found)
    values, status = _kernel.judge(
        words,
        heights,
        step,
        stack.limit,
        rectangles._MARGIN,
        stack.half_width,
        stack.levels,
        rectangles._ORDER,
        law.square,
    )
    assert (status[alone] == KEPT).all()
    assert np.array_equal(values, out)
    return values, status, alone


def assert_agree(law, scale, words, heights):
    """Where a fast path is certain, no 256 further bits change the reference. Returns statuses and ``alone``."""
    values, status, alone = fast(law, scale, words, heights)
    for word, height, value, kind in zip(words, heights, values.tolist(), status, strict=True):
        for u in (0, ONES) if kind != OPEN else ():
            for y in (0, ONES):
                reference, kept = exact(law, scale, int(word), int(height), u, y)
                assert kept == (kind == KEPT)
                assert reference == value or not kept
    return status, alone


def random_words(count, key=b"w" * 32):
    return [int(word) for word in Stream(key).at(np.arange(count // 2, dtype=np.uint64), 0).ravel()]


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_random_candidates(law, scale):
    status, alone = assert_agree(law, scale, random_words(1000), random_words(1000, b"h" * 32))
    assert alone.mean() > 0.98
    assert (status == KEPT).mean() > 0.98


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_candidates_that_are_not_certain_alone(law, scale):
    """Words of every rectangle, just above its limit and at its right end, with low, middle and high Y."""
    stack = layers(law)
    words, heights = [], []
    for layer in [*range(0, 1024, 37), 1, 1022, 1023]:
        limit, end = int(stack.limit[layer]) >> BITS + 1, 2**53 - 1
        for bits in (limit, (limit + end) // 2, end):
            words += [(layer + (bits << BITS)) | (len(words) % 2 << 63)] * 3
            heights += [1 << 20, 1 << 63, LAST - (1 << 20)]
    status, alone = assert_agree(law, scale, words, heights)
    assert not alone.any()
    assert (status == REJECTED).sum() > 30
    assert (status == KEPT).sum() > 30


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_next_to_the_graph(law, scale):
    """Y around f(X): open near it, right and certain away from it, in units of the stated band."""
    stack = layers(law)
    shifts = [sign * power for power in (0.0, 0.4, 3.0, 64.0) for sign in (-1, 1)]
    words, heights = [], []
    for layer in range(1, 1000, 53):
        limit = int(stack.limit[layer]) >> BITS + 1
        bits = limit + (2**53 - limit) // 2
        with mp.workprec(300):
            x = mpf(stack.half_width[layer]) * (mpf(bits) + 0.5) / 2**53
            edge = (law.graph(x) - stack.bottom[layer]) / stack.rise[layer] * 2**64
            band = (2 * law.graph(x) * rectangles._ORDER + stack.rise[layer] / 2**63) / stack.rise[layer] * 2**64
            heights += [int(edge + shift * band) for shift in shifts]
        words += [layer + (bits << BITS)] * len(shifts)
    status, _ = assert_agree(law, scale, words, heights)
    status = status.reshape(-1, len(shifts))
    assert (status[:, :4] == OPEN).all()
    assert (status[:, [4, 6]] == KEPT).all()
    assert (status[:, [5, 7]] == REJECTED).all()


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("law", LAWS)
def test_next_to_rounding_boundaries(law, scale):
    """Words whose values surround k + 1/2: open within the stated margin, right and certain outside it."""
    stack = layers(law)
    words, near = [], []
    for layer in range(0, 1000, 13):
        with mp.workprec(300):
            step = mpf(scale) * mpf(stack.half_width[layer]) / 2**53
            top = int(mp.floor((int(stack.limit[layer]) >> BITS + 1) * step - 0.6))
            for k in {0, top // 3, top} if top >= 0 else ():
                middle = int((k + mpf(0.5)) / step)
                for shift in (-1000, -20, -4, -1, 0, 1, 4, 20, 1000):
                    words.append(layer + (middle + shift << BITS))
                    near.append(abs(shift) <= 4)
    status, alone = assert_agree(law, scale, words, [1 << 63] * len(words))
    near = np.array(near)
    assert near.sum() > 50
    assert (status[near] == OPEN).all()
    assert not alone[near].any()
    assert alone[~near].any()
    assert (status[~near] == KEPT).mean() > 0.9


@pytest.mark.parametrize("law", LAWS)
def test_extreme_words(law):
    """The smallest and largest words: the middle, the top rectangle, and the ends of the tails."""
    assert fast(law, 1e9, [0], [LAST])[1:] == ([KEPT], [True])
    assert exact(law, 1e9, 0, LAST, ONES, ONES) == (0, True)
    value, kept = exact(law, 1e9, LAST, LAST, ONES, ONES)
    assert not kept
    assert value == -round(float(layers(law).half_width[-1]) * 1e9)
    tails = [2**63 - 1024, LAST - 1023]
    for word, sign in zip(tails, (1, -1), strict=True):
        assert exact(law, 1e9, word, 0, ONES, 0) == (sign * law.reach * 1e9, True), "the end of a tail is reachable"
        assert not exact(law, 1e9, word, 0, ONES, ONES)[1], "and almost never kept"
        assert not exact(law, 1e9, word, LAST, ONES, ONES)[1]
    _, status, alone = fast(law, 1e9, tails * 2, [0, 0, LAST, LAST])
    assert status.tolist() == [OPEN, OPEN, REJECTED, REJECTED]
    assert not alone.any()


@pytest.mark.parametrize("name", ["_MARGIN", "_ORDER"])
@pytest.mark.parametrize("scale", [3.3, 216815.3])
@pytest.mark.parametrize(("law", "draw"), [(GAUSSIAN, rounded_gaussian), (LAPLACE, rounded_laplace)])
def test_the_fallback_alone_draws_the_same(monkeypatch, law, draw, scale, name):
    """With an endless margin the reference takes every decision, or every one about the graph: the same values."""
    quick, calls = draw(bytes(32), scale, 0, 3000), []
    monkeypatch.setattr(rectangles, name, 1e300)
    monkeypatch.setattr(rectangles, "exact", lambda *args: calls.append(args) or exact(*args))
    assert np.array_equal(draw(bytes(32), scale, 0, 3000), quick)
    assert len(calls) > 3000 if name == "_MARGIN" else 10 < len(calls) < 100
    monkeypatch.setattr(rectangles, "exact", lambda *args: (exact(*args)[0], True))
    assert not np.array_equal(draw(bytes(32), scale, 0, 3000), quick), "a reference that keeps everything is noticed"


def test_further_bits_decide_open_words():
    """Where the margin leaves a word open, the reference turns with the further bits it reads."""
    stack = layers(GAUSSIAN)
    scale = 2.0**53 * 1.5 / float(stack.half_width[500])
    assert {exact(GAUSSIAN, scale, 500 + (1 << BITS), 0, u, 0)[0] for u in (0, ONES)} == {2, 3}


@pytest.mark.parametrize("law", LAWS)
def test_rectangles_have_equal_areas_and_cover_the_graph(law):
    stack = layers(law)
    assert _kernel.LAYER_BITS == rectangles._LAYER_BITS == BITS
    with mp.workprec(400):
        tops = [bottom + rise for bottom, rise in zip(stack.bottom, stack.rise, strict=True)]
        assert stack.bottom[0] == 0
        assert all(abs(top - bottom) < mpf(2) ** -290 for top, bottom in zip(tops, stack.bottom[1:], strict=False))
        assert 1 <= tops[-1] < 1 + mpf(2) ** -16, "the last rectangle ends just above f(0) = 1"
        for width, limit, rise, bottom, top in zip(
            stack.half_width, stack.limit, stack.rise, stack.bottom, tops, strict=True
        ):
            assert abs(mpf(width) * rise / law.area - 1) < mpf(2) ** -280
            assert mpf(width) >= law.inverse(bottom) or bottom == 0
            ratio = law.inverse(top) / width * 2**53
            bits = int(limit) >> BITS + 1
            assert bits <= ratio
            assert bits > ratio - 3 or bits == 0
            assert int(limit) % (1 << BITS + 1) == 0


def test_what_the_cut_and_the_grid_cost():
    """The terms of the proof, summed: below 2^-100 with room."""
    with mp.workprec(200):
        assert mp.erfc(mpf(GAUSSIAN.reach) / mp.sqrt(2)) < mpf(2) ** -125
        assert mp.exp(-mpf(LAPLACE.reach)) < mpf(2) ** -109
        for law, slope, mass in ((GAUSSIAN, mp.exp(-mpf(1) / 2), mp.sqrt(2 * mp.pi)), (LAPLACE, 1, 2)):
            assert 2 * law.reach * 2**36 + 2 < 2**44
            assert law.reach**2 * slope / law.area < 2**23
            assert 0.99 < mass / (2 * law.area * 1024) < 1
        per_candidate = mpf(2) ** (44 - 182) + 4 * mpf(2) ** (23 - 181) + mpf(2) ** -190
        assert per_candidate / mpf(0.99) * 2 < mpf(2) ** -135
