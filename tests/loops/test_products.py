"""Compiled products and Torch's give the same bits, on rows of any size, at any number of threads, in any batch."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sfumato.bounded._exact import WholeRows
from sfumato.loops import _native, _torch_products
from sfumato.loops import _products as chosen
from sfumato.loops._torch_products import BITS, LANES, padded


def compiled():
    library = _native.library()
    if library is None:
        pytest.skip("no compiled library here")
    from sfumato.loops._c_products import Compiled

    return Compiled(library)


@pytest.fixture(params=[1, 2])
def threads(request, monkeypatch):
    monkeypatch.setattr("sfumato.loops._c_products.threads", lambda: request.param)


def normal(*shape, scale=1.0, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * scale


def integers(rows, columns, size, seed=0):
    """Int16 rows of norm at most 2^BITS, padded."""
    x = normal(rows, columns, seed=seed)
    x *= size / x.norm(dim=1, keepdim=True).clamp_min(1e-300)
    out = torch.zeros(rows, padded(columns), dtype=torch.int16)
    out[:, :columns] = x.trunc().to(torch.int16)
    return out


def same(left, right):
    left, right = (one if isinstance(one, tuple | list) else [one] for one in (left, right))
    for one, other in zip(left, right, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert (
            torch.equal(one.nan_to_num(7e77), other.nan_to_num(7e77))
            if one.is_floating_point()
            else torch.equal(one, other)
        )


SHAPES = [
    (0, 5, 3),
    (1, 1, 1),
    (2, 31, 2),
    (7, 32, 16),
    (13, 33, 17),
    (50, 64, 64),
    (49, 437, 65),
    (1100, 8, 6),
    (3, 0, 2),
]


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [shape[:2] for shape in SHAPES])
def test_whole_rows(rows, columns, bias):
    x, room = normal(rows, columns) * 10.0 ** torch.arange(rows).remainder(40)[:, None].double(), 2.0**BITS - 20
    if rows > 5:
        x[0], x[1], x[2, 0], x[3, 0], x[4] = 0.0, 1e200, torch.nan, torch.inf, 1e-310
    same(compiled().whole_rows(x, room, bias=bias), _torch_products.whole_rows(x, room, bias=bias))


def sums_of(found, grads, rows, room, most):
    """What clipped sums of these layers are, added to ones."""
    sums = []
    for grad, (entered, _) in zip(grads, rows, strict=True):
        width = len(entered[0]) - 2 if isinstance(entered, tuple) else entered.shape[1] - LANES + 3
        sums.append([torch.ones(grad.shape[1], *more, dtype=torch.int64) for more in ((width,), ())])
    found.clipped_sums(grads, rows, room, most, sums)
    return [part for pair in sums for part in pair]


def whole_sums(found, slopes, rows):
    """Outer products of slopes that are integers, which are not clipped."""
    ones = torch.ones(len(slopes), dtype=torch.float64)
    return sums_of(found, [slopes.double()], [(rows, ones)], 2.0**40, 1.0)


@pytest.mark.parametrize(("rows", "columns", "units"), SHAPES)
def test_products_and_sums(rows, columns, units, threads):
    columns = columns // LANES * LANES + 3  # the width that sums_of makes of the padded rows
    left, weights = integers(rows, columns, 2**BITS), normal(units, columns, seed=1)
    norms, bias = normal(rows, seed=2).abs(), normal(units, seed=4)
    slopes = integers(rows, units, 2**BITS, seed=5)[:, :units].contiguous()
    for extra in (None, bias):
        given = left, norms, weights, 2.0**BITS - 20, extra
        same(compiled().times(*given), _torch_products.times(*given))
    same(whole_sums(compiled(), slopes, left), whole_sums(_torch_products, slopes, left))


@pytest.mark.parametrize(("rows", "columns", "units"), SHAPES)
def test_sparse_products_and_sums(rows, columns, units, threads):
    matrix = sp.random(rows, columns, 0.3, format="csr", random_state=0)
    found = WholeRows.of_csr(matrix).matrix
    weights, norms = normal(units, columns), normal(rows).abs()
    slopes = integers(rows, units, 2**BITS, seed=5)[:, :units].contiguous()
    for extra in (None, normal(units, seed=4)):
        given = found.by_row, norms, weights, 2.0**BITS - 20, extra
        same(compiled().times(*given), _torch_products.times(*given))
    same(whole_sums(compiled(), slopes, found.by_column), whole_sums(_torch_products, slopes, found.by_column))


@pytest.mark.parametrize("clip", [1e-3, 1.0, 1e9])
def test_clipped_slopes(clip):
    """Rows of one 1 show the integers of their slopes."""
    grads, norms = [normal(40, 17), normal(40, 6, scale=30.0, seed=1)], [normal(40, seed=2).abs() + 1 for _ in range(2)]
    grads[0][3], grads[1][4, 0], grads[0][5, 2], grads[0][6] = 0.0, torch.nan, torch.inf, 1e200
    grads[1][3] = 0.0
    ones = torch.zeros(40, padded(64), dtype=torch.int16)  # 67 columns
    ones[torch.arange(40), torch.arange(40)] = 1
    given = grads, [(ones, norm) for norm in norms], 2.0**BITS - 4, 2.0**BITS / clip
    same(sums_of(compiled(), *given), sums_of(_torch_products, *given))
    by_row = sums_of(compiled(), *given)[::2]
    whole = torch.cat([part - 1 for part in by_row]).T.double()
    assert (whole.square().sum(1) <= 4**BITS).all()
    assert not whole[3:6].any()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 4097])
def test_single_numbers(count):
    x = normal(count, scale=4.0)
    if count > 7:
        x[:7] = torch.tensor([0.0, -0.0, torch.nan, torch.inf, -torch.inf, -800.0, 1e-320])
    same(compiled().selu(x), _torch_products.selu(x))


@pytest.mark.parametrize("shape", [(0, 5), (4, 1), (7, 8), (30, 13), (5, 3, 16)])
def test_norms_of_rows(shape):
    rows, grad = normal(*shape), normal(*shape, seed=1)
    if shape[0] > 4:
        rows[0], rows[1], rows[2] = 0.0, torch.nan, 1e200
    found, expected = compiled().normalize(rows), _torch_products.normalize(rows)
    same(found, expected)
    same(compiled().normalize_slope(grad, *found), _torch_products.normalize_slope(grad, *expected))
    if shape == (30, 13):
        x = rows[3:].clone().requires_grad_()
        torch.nn.functional.normalize(x).backward(grad[3:])
        torch.testing.assert_close(compiled().normalize_slope(grad, *found)[3:], x.grad, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("classes", [1, 2, 7, 40])
def test_slopes_of_classes(classes):
    scores, y = normal(60, classes, scale=20.0), torch.arange(60) % (classes + 1) - 1
    scores[3, 0], scores[4, -1], scores[5, 0] = torch.nan, torch.inf, -torch.inf
    same(compiled().class_slope(scores, y), _torch_products.class_slope(scores, y))


def test_sums_beyond_an_int32_are_exact():
    """The rows' largest entries decide where runs end: one run of all rows overflows."""
    rows, slopes = torch.full((40, LANES), 2**BITS, dtype=torch.int16), torch.full((40, 1), 2**BITS, dtype=torch.int16)
    for found in (compiled(), _torch_products):
        assert all((part == 1 + 40 * 4**BITS).all() for part in whole_sums(found, slopes, rows))
    assert 40 * 4**BITS > 2**32
    places, offsets = torch.arange(40, dtype=torch.int32).repeat(2), torch.tensor([0, 40, 80])
    parts = offsets, places, torch.full((80,), 2**BITS, dtype=torch.int16)
    for found in (compiled(), _torch_products):
        assert all((part == 1 + 40 * 4**BITS).all() for part in whole_sums(found, slopes, parts))


def test_roots_are_rounded_correctly():
    """Squared exactly, the root lies between those of the neighbors halfway to the next doubles."""
    squares = normal(3000).square() * 100
    for square, root in zip(squares.tolist(), _torch_products.roots(squares).tolist(), strict=True):
        below, above = (Fraction(root) + Fraction(math.nextafter(root, end)) for end in (0.0, math.inf))
        assert (below / 2) ** 2 <= Fraction(square) <= (above / 2) ** 2


def test_torch_computes_where_nothing_was_compiled(monkeypatch):
    monkeypatch.setattr(_native, "library", lambda: None)
    assert chosen.products.__wrapped__().NAME == "Torch"


def test_every_kind_of_vector_unit_gives_the_same_bits():
    """What the processor offers decides on speed alone: the best, AVX2 and plain C are tried by their own names."""
    library, best = _native.library(), compiled()
    rows, slopes = integers(101, 67, 2**BITS), integers(101, 19, 2**BITS, seed=1)[:, :19].contiguous()
    norms, x, weights = normal(101).abs(), normal(3000, scale=3.0), normal(19, 67, seed=2)

    def everything():
        return [*whole_sums(best, slopes, rows), best.times(rows, norms, weights, 16000.0, None), *best.selu(x)]

    expected, top = everything(), library.use_level(-1)
    try:
        for level in range(top + 1):
            assert library.use_level(level) == level
            assert all(map(torch.equal, everything(), expected))
    finally:
        library.use_level(top)
    assert np.isfinite(expected[2].numpy()).all()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [0, 1, 31, 32, 33, 64, 96])
def test_rows_and_weights_made_of_numbers_are_multiplied(columns, bias):
    """Both kinds come from their own maker here, so that their padding has to agree."""
    x, weight, more = normal(9, columns), normal(columns, 5, seed=1), normal(5, seed=2)
    rows = WholeRows.of(x, bias=bias)
    found = rows.times(weight, more if bias else None)
    expected = x @ weight + (more if bias else 0)
    assert (found - expected).abs().max() < 0.01
    one_by_one = [WholeRows.of(x[i : i + 1], bias=bias).times(weight, more if bias else None) for i in range(9)]
    assert torch.equal(found, torch.cat(one_by_one))


def test_wrong_types_and_shapes_are_refused():
    best, rows = compiled(), integers(4, 5, 100)
    with pytest.raises(TypeError, match="float64 in C order"):
        best.whole_rows(torch.zeros(4, 5), 100.0, bias=False)
    with pytest.raises(TypeError, match="float64 in C order"):
        best.whole_rows(normal(5, 4).T, 100.0, bias=False)
    with pytest.raises(ValueError, match="padded columns"):
        best.times(rows, normal(4), normal(2, 40), 100.0, None)
    sums = [(torch.zeros(2, 40, dtype=torch.int64), None)]
    with pytest.raises(ValueError, match="padded columns"):
        best.clipped_sums([normal(4, 2)], [(rows, normal(4))], 1.0, 1.0, sums)
    with pytest.raises(ValueError, match="4 gradients of 2 units"):
        best.clipped_sums([normal(4, 3)], [(rows, normal(4))], 1.0, 1.0, sums)
    with pytest.raises(ValueError, match="4 classes"):
        best.class_slope(normal(4, 2), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(TypeError, match="int64 in C order"):
        best.class_slope(normal(4, 2), torch.zeros(4, dtype=torch.int32))
