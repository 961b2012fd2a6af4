"""Noise depends on key, law, scale and position alone."""

import os
from fractions import Fraction

import numba
import numpy as np
import pytest
from mpmath import mp

from sfumato.errors import InputError
from sfumato.loops import _keyed
from sfumato.noise import _rectangles as rectangles
from sfumato.noise import coins as coins_module
from sfumato.noise import keys
from sfumato.noise._discrete import discrete_gaussian, discrete_laplace
from sfumato.noise._geometric import keyed_discrete_laplace
from sfumato.noise._laplace import rounded_laplace
from sfumato.noise.coins import coins
from sfumato.noise.gaussian import rounded_gaussian
from sfumato.noise.keys import Stream, derive_key, law_stream, new_key, operand_mac

KEY = bytes(range(32))
SIZE = 400_000
SAMPLERS = [rounded_gaussian, rounded_laplace]
LAWS = {
    rounded_gaussian: (3.3, SIZE),
    rounded_laplace: (3.3, SIZE),
    discrete_laplace: (Fraction(1000, 3), 3000),
    discrete_gaussian: (Fraction(1000, 3), 3000),
    keyed_discrete_laplace: (Fraction(300), 1000),
}
"""Each with a scale, and how many values tell whether noise is independent."""


@pytest.fixture
def threads():
    before = numba.get_num_threads()
    yield numba.set_num_threads
    numba.set_num_threads(before)


@pytest.fixture
def without_library(monkeypatch):
    """Draw as where nothing was compiled, or the processor has no instructions for AES."""
    monkeypatch.setattr(rectangles, "has_sampler", lambda: False)


@pytest.fixture(scope="module", params=SAMPLERS)
def whole(request):
    return request.param, request.param(KEY, 3.3, 0, SIZE)


@pytest.fixture(scope="module", params=LAWS, ids=lambda draw: draw.__name__)
def law(request):
    """A sampler, its scale, and what it draws as a whole."""
    scale, size = LAWS[request.param]
    return request.param, scale, np.array(request.param(KEY, scale, 0, size))


def test_a_slice_draws_what_the_whole_draws_there(law):
    draw, scale, values = law
    size = len(values)
    for start, stop in [(0, 0), (7, 7), (0, 1), (1, 2), (size // 4 - 1, size // 2), (1, size), (2, size - 1)]:
        assert np.array_equal(draw(KEY, scale, start, stop), values[start:stop])
    if size == SIZE:
        assert np.array_equal(draw(KEY, scale, 32_767, 32_770), values[32_767:32_770])


def test_blocks_in_any_order_give_the_same_values(law):
    draw, scale, values = law
    size = len(values) // 6 + 1
    parts = {part: draw(KEY, scale, part * size, min((part + 1) * size, len(values))) for part in (2, 5, 0, 1, 3, 4)}
    assert np.array_equal(np.concatenate([parts[part] for part in sorted(parts)]), values)


@pytest.mark.parametrize("count", [1, 2])
def test_thread_count_does_not_matter(whole, threads, count):
    if count > numba.config.NUMBA_NUM_THREADS:
        pytest.skip("one thread only on this machine")
    threads(count)
    draw, values = whole
    assert np.array_equal(draw(KEY, 3.3, 0, SIZE), values)


@pytest.mark.parametrize("chunk", [2, 64, 1000])
def test_chunks_and_spans_do_not_matter(whole, monkeypatch, chunk, without_library):
    monkeypatch.setattr(rectangles, "_CHUNK", chunk)
    monkeypatch.setattr(rectangles, "_SPAN", 777)
    draw, values = whole
    assert np.array_equal(draw(KEY, 3.3, 5, 2006), values[5:2006])


@pytest.mark.parametrize("count", [1, 2])
def test_work_is_split_over_the_threads_allowed(monkeypatch, threads, count, without_library):
    if count > numba.config.NUMBA_NUM_THREADS:
        pytest.skip("one thread only on this machine")
    threads(count)
    spans, fill = [], rectangles._fill
    monkeypatch.setattr(rectangles, "_fill", lambda *args: spans.append(args[-1].size) or fill(*args))
    rounded_gaussian(KEY, 3.3, 0, SIZE)
    assert spans == [SIZE // count] * count


@pytest.mark.parametrize("draw", SAMPLERS)
def test_positions_far_out_are_reachable(draw):
    last = 2**63 - 1
    assert len(set(draw(KEY, 1e9, last - 4, last).tolist())) == 4


def test_another_key_scale_law_or_position_gives_independent_noise(law):
    """Otherwise two draws for one operand would cancel: s + round(a Z) and s + round(b Z) give s away."""
    draw, scale, values = law
    drawn = [draw(key, scale, 0, len(values)) for key in (derive_key(KEY, 1), KEY[:-1] + b"\xff")]
    drawn += [draw(KEY, factor * scale, 0, len(values)) for factor in (Fraction(103, 100), 2)]
    drawn += [np.roll(values, 1)]
    for other in LAWS.keys() - {draw}:
        number = float if other in SAMPLERS else Fraction
        drawn.append(other(KEY, number(scale), 0, min(len(values), LAWS[other][1])))
    for noise in drawn:
        assert abs(np.corrcoef(values[: len(noise)], noise)[0, 1]) < 5 / np.sqrt(len(noise))


def test_law_streams_are_told_apart():
    streams = [law_stream(KEY, 0, 1, *parts) for parts in (("a", "b"), ("ab",), ("a", "c"), ("a",))]
    assert len({bytes(stream.at(np.zeros(1, np.uint64), 0)) for stream in streams}) == 4


def test_mac_sees_values_shape_type_order_and_split():
    a = np.arange(6, dtype=np.int16)
    operands = [
        (a,),
        (a.reshape(2, 3),),
        (a.reshape(3, 2),),
        (a.view(np.uint16),),
        (a[:3], a[3:]),
        (a[3:], a[:3]),
        (a, a[:0]),
    ]
    assert len({operand_mac(KEY, *operand) for operand in operands}) == len(operands)
    assert operand_mac(KEY, a) != operand_mac(new_key(), a)
    assert operand_mac(KEY, a) != derive_key(KEY, "mac")


def test_mac_does_not_depend_on_memory_layout():
    a = np.arange(12).reshape(3, 4)
    assert operand_mac(KEY, np.asfortranarray(a)) == operand_mac(KEY, a)
    assert operand_mac(KEY, np.repeat(a, 2, axis=1)[:, ::2]) == operand_mac(KEY, a)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (("ab", "c"), ("a", "bc")),
        (("ab",), ("a", "b")),
        (("a", ""), ("a",)),
        (("noise", 1, 2), ("noise", 12)),
        ((), ("",)),
    ],
)
def test_derived_keys_cannot_be_confused(left, right):
    assert derive_key(KEY, *left) != derive_key(KEY, *right)


def test_derived_keys_are_stable_and_depend_on_the_key():
    assert derive_key(KEY, "aggregate", 1) == derive_key(KEY, "aggregate", 1)
    assert derive_key(KEY, "aggregate", 1) != derive_key(bytes(32), "aggregate", 1)
    assert len(derive_key(KEY, "aggregate", 1)) == 32


def test_keys_and_coins_are_drawn_from_the_operating_system(monkeypatch):
    for module in (keys, coins_module):
        monkeypatch.setattr(module, "os", os)
    monkeypatch.setattr(os, "urandom", lambda count: b"7" * count)
    assert new_key() == b"7" * 32
    assert coins_module.SecretWords().bytes(8) == coins_module.SecretWords(b"7" * 32).bytes(8)


def test_stream_blocks_are_distinct_and_agree_between_both_readings():
    stream = Stream(KEY)
    counter = stream.counter_mode(5).update(bytes(16 * 295))
    assert counter == stream.at(np.arange(5, 300, dtype=np.uint64), 0).tobytes()
    attempts = np.array([0, 1, 2, 1 << 62, 1 << 63], np.uint64)
    blocks = [stream.at(np.arange(100, dtype=np.uint64), int(t)) for t in attempts]
    assert len(np.unique(np.concatenate(blocks), axis=0)) == 500
    assert np.array_equal(stream.at(np.full(5, 7, np.uint64), attempts), [block[7] for block in blocks])


def test_coins_depend_on_the_id_alone():
    ids = np.arange(1000)
    order = np.random.default_rng(0).permutation(1000)
    assert np.array_equal(coins(KEY, 0.3, ids)[order], coins(KEY, 0.3, ids[order]))
    assert not np.array_equal(coins(KEY, 0.3, ids), coins(derive_key(KEY, 1), 0.3, ids))


def test_coins_with_a_larger_probability_keep_the_heads():
    few, many = (coins(KEY, q, np.arange(1000)) for q in (0.3, 0.6))
    assert many[few].all()
    assert many.sum() > few.sum()


@pytest.mark.parametrize("scale", [0, -1.0, 2.0**-21, 2.0**36, float("nan"), float("inf"), "3"])
@pytest.mark.parametrize(("draw", "name"), [(rounded_gaussian, "stddev"), (rounded_laplace, "scale")])
def test_scale_out_of_range(draw, name, scale):
    with pytest.raises(InputError, match=f"Expected {name} "):
        draw(KEY, scale, 0, 1)


@pytest.mark.parametrize("scale", [2.0**-20, np.nextafter(2.0**36, 0)])
@pytest.mark.parametrize(("draw", "ratio"), [(rounded_gaussian, 1), (rounded_laplace, np.sqrt(2))])
def test_extreme_scales_are_drawn(draw, ratio, scale):
    values = draw(KEY, scale, 0, 10_000)
    assert (values == 0).all() if scale < 1 else values.std() == pytest.approx(scale * ratio, rel=0.04)


@pytest.mark.parametrize(("start", "stop"), [(-1, 3), (4, 3), (0, 2**63)])
@pytest.mark.parametrize("draw", LAWS)
def test_positions_out_of_range(draw, start, stop):
    with pytest.raises(InputError, match="start, stop"):
        draw(KEY, LAWS[draw][0], start, stop)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_probability_out_of_range(probability):
    with pytest.raises(InputError, match="probability"):
        coins(KEY, probability, np.arange(3))


def test_no_block_of_bits_is_read_for_two_purposes(monkeypatch, without_library):
    """With every candidate undecided by floats: its own bits, further bits of U and of Y, and the bits of each retry."""
    from sfumato.noise import _kernel

    stream, read, decided = Stream(KEY), [], []

    class Noted:
        counter_mode = stream.counter_mode

        def at(self, index, attempt):
            read.extend((int(i), int(attempt)) for i in index)
            return stream.at(index, attempt)

    judge, reference = _kernel.judge, rectangles.exact

    def unsure(words, *rest):
        values, status = judge(words, *rest)
        return values, np.full_like(status, _kernel.OPEN)

    def noted(law, scale, word, height, further_u, further_y):
        decided.append((further_u, further_y))
        return reference(law, scale, word, height, further_u, further_y)

    monkeypatch.setattr(_kernel, "judge", unsure)
    monkeypatch.setattr(rectangles, "exact", noted)
    rectangles.draw(rectangles.GAUSSIAN, 50.0, Noted(), 0, 4000)
    assert len(read) == len(set(read)) >= 3 * len(decided) > 30
    assert all(u != y for u, y in decided)


def test_only_candidates_that_stay_open_are_decided_exactly(monkeypatch):
    """Rejected, kept and open are three answers: bits of few candidates are read further, and with a huge margin those of all."""
    calls, reference = [], rectangles.exact
    monkeypatch.setattr(rectangles, "exact", lambda *given: calls.append(1) or reference(*given))
    values = rectangles.draw(rectangles.GAUSSIAN, 50.0, Stream(KEY), 0, 4000)
    assert calls == []
    monkeypatch.setattr(rectangles, "_MARGIN", 2.0**60)
    assert np.array_equal(rectangles.draw(rectangles.GAUSSIAN, 50.0, Stream(KEY), 0, 200), values[:200])
    assert len(calls) >= 200


@pytest.mark.parametrize("probability", [0.0, 2.0**-70, 2.0**-64, 3e-19, 0.1, 1 / 3, 0.5, np.nextafter(1, 0), 1.0])
def test_coins_are_never_above_their_probability(monkeypatch, probability):
    """Heads for words 0 to t - 1 and no other, so the probability is t / 2^64 with t the floor of q 2^64."""
    t = int(Fraction(probability) * 2**64)
    told = [(word, word < t) for word in (0, t - 1, t, 2**64 - 1) if 0 <= word < 2**64]
    words = np.array([[word, 0] for word, _ in told], np.uint64)
    monkeypatch.setattr(Stream, "at", lambda self, index, attempt: words)
    assert coins(KEY, probability, np.arange(len(told))).tolist() == [head for _, head in told]


@pytest.mark.parametrize("law", [rectangles.GAUSSIAN, rectangles.LAPLACE], ids=lambda law: law.name)
@pytest.mark.parametrize("layer", [0, 1, 500, 1022, 1023])
def test_the_reference_keeps_the_bottom_and_not_the_top_of_every_right_edge(law, layer):
    word = ((1 << 53) - (1 << 23)) << 10 | layer  # just left of the edge, where the graph passes just above the bottom
    kept = [rectangles.exact(law, 1000.0, word, height, 0, 0)[1] for height in (0, 2**64 - 1)]
    assert kept == [True, False]


@pytest.fixture(params=[0, 1, 2])
def level(request):
    library = _keyed._compiled()
    best = library.use_level(-1) if _keyed.has_sampler() else -1
    if request.param > best:
        pytest.skip("no such vector unit, no instructions for AES, or no library")
    library.use_level(request.param)
    yield
    library.use_level(best)


@pytest.mark.parametrize("scale", [2.0**-20, 0.4, 3.3, 216_815.3, 2.0**35])
@pytest.mark.parametrize("draw", SAMPLERS)
def test_compiled_sampler_draws_what_numba_draws(level, monkeypatch, draw, scale):
    found = [
        draw(KEY, scale, start, stop) for start, stop in ((0, 70_001), (3, 4), (7, 1031), (2**63 - 3001, 2**63 - 1))
    ]
    monkeypatch.setattr(rectangles, "has_sampler", lambda: False)
    others = [
        draw(KEY, scale, start, stop) for start, stop in ((0, 70_001), (3, 4), (7, 1031), (2**63 - 3001, 2**63 - 1))
    ]
    assert all(np.array_equal(one, other) for one, other in zip(found, others, strict=True))


def test_noise_is_added_to_sums_in_place(level):
    sums = np.arange(1200).reshape(40, 30)

    def onto(noise):
        noise.add(sums[:13], 5)
        noise.add(sums[13:], 5 + 13 * 30)
        return sums

    released = rounded_gaussian(KEY, 3e10, 5, 1205, onto)
    assert released is sums
    assert np.array_equal(sums.ravel() - np.arange(1200), rounded_gaussian(KEY, 3e10, 5, 1205))


def test_open_values_reach_sums_of_any_layout(monkeypatch):
    """Sums that are part of a wider matrix: what is added to a copy of them would be lost."""
    monkeypatch.setattr(rectangles, "_MARGIN", 2.0**60)
    wide = np.zeros((9, 5), np.int64)

    def onto(noise):
        rows = np.zeros((9, 3), np.int64)
        noise.add(rows, 0)
        wide[:, :3] = rows
        return wide[:, :3]

    released = rounded_gaussian(KEY, 50.0, 0, 27, onto)
    monkeypatch.undo()
    assert np.array_equal(released.ravel(), rounded_gaussian(KEY, 50.0, 0, 27))


def test_threads_do_not_change_the_precision_of_each_other(monkeypatch):
    """Two laws that were first drawn in two threads could leave tables of 53 bits."""
    whole, inverse = rectangles.layers.__wrapped__, rectangles.Law.inverse
    expected = whole(rectangles.LAPLACE)

    def disturbed(law, y):
        mp.prec = 53  # what another thread does on leaving mp.workprec
        return inverse(law, y)

    monkeypatch.setattr(rectangles.Law, "inverse", disturbed)
    with mp.workprec(53):
        found = whole(rectangles.LAPLACE)
    assert (found.bottom, found.rise) == (expected.bottom, expected.rise)
    assert np.array_equal(found.half_width, expected.half_width)
    assert np.array_equal(found.limit, expected.limit)


def test_the_reference_decides_at_a_precision_of_its_own(monkeypatch):
    stack, bits, graph = rectangles.layers(rectangles.GAUSSIAN), (1 << 53) - (1 << 23), rectangles.Law.graph
    x = Fraction(bits, 1 << 53) * Fraction(float(stack.half_width[500]))
    with mp.workprec(300):
        top = (mp.exp(-(mp.mpf(x.numerator) ** 2) / x.denominator**2 / 2) - stack.bottom[500]) / stack.rise[500]
        heights = [int(top * 2**64) + step for step in (-(2**41), 2**41)]

    def disturbed(law, x):
        mp.prec = 20
        return graph(law, x)

    monkeypatch.setattr(rectangles.Law, "graph", disturbed)
    with mp.workprec(53):
        kept = [rectangles.exact(rectangles.GAUSSIAN, 1000.0, bits << 10 | 500, height, 0, 0)[1] for height in heights]
    assert kept == [True, False]


def test_more_open_values_than_room_are_an_error(monkeypatch):
    monkeypatch.setattr(rectangles, "_ROOM", 10)
    monkeypatch.setattr(rectangles, "_MARGIN", 1e300)
    if rectangles.has_sampler():
        with pytest.raises(RuntimeError, match="at most 10 open values, got 100"):
            rounded_gaussian(KEY, 3.3, 0, 100)


def test_compiled_sampler_takes_whole_arrays_of_int64_alone():
    if not rectangles.has_sampler():
        pytest.skip("no library, or no instructions for AES")
    noise = rectangles.Rounded(rectangles.GAUSSIAN, 3.3, Stream(KEY), 100)
    for sums in (np.zeros(10), np.zeros(20, np.int64)[::2]):
        with pytest.raises(TypeError, match="int64 in C order"):
            noise.add(sums, 0)
