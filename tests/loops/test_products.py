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


@pytest.mark.parametrize(("rows", "columns", "units"), SHAPES)
def test_products_and_sums(rows, columns, units, threads):
    left, weights = integers(rows, columns, 2**BITS), integers(units, columns, 2**BITS, seed=1)
    norms, scales, bias = normal(rows, seed=2).abs(), normal(units, seed=3).abs(), normal(units, seed=4)
    slopes = integers(rows, units, 2**BITS, seed=5)[:, :units].contiguous()
    for extra in (None, bias):
        same(
            compiled().multiply(left, norms, weights, scales, extra),
            _torch_products.multiply(left, norms, weights, scales, extra),
        )
    same(compiled().outer_sums(slopes, left, columns), _torch_products.outer_sums(slopes, left, columns))


@pytest.mark.parametrize(("rows", "columns", "units"), SHAPES)
def test_sparse_products_and_sums(rows, columns, units, threads):
    matrix = sp.random(rows, columns, 0.3, format="csr", random_state=0)
    found = WholeRows.of_csr(matrix).matrix
    weights, norms, scales = integers(units, columns, 2**BITS), normal(rows).abs(), normal(units).abs()
    slopes = integers(rows, units, 2**BITS, seed=5)[:, :units].contiguous()
    for extra in (None, normal(units, seed=4)):
        given = found.by_row, norms, weights, scales, extra
        same(compiled().multiply_sparse(*given), _torch_products.multiply_sparse(*given))
    given = found.by_column, slopes
    same(compiled().outer_sums_sparse(*given), _torch_products.outer_sums_sparse(*given))


@pytest.mark.parametrize("clip", [1e-3, 1.0, 1e9])
def test_clipped_slopes(clip):
    grads, norms = [normal(40, 17), normal(40, 6, scale=30.0, seed=1)], [normal(40, seed=2).abs() + 1 for _ in range(2)]
    grads[0][3], grads[1][4, 0], grads[0][5, 2], grads[0][6] = 0.0, torch.nan, torch.inf, 1e200
    grads[1][3] = 0.0
    given = grads, norms, 2.0**BITS - 4, 2.0**BITS / clip
    same(compiled().clip(*given), _torch_products.clip(*given))
    whole = torch.cat(compiled().clip(*given), dim=1).double()
    assert (whole.square().sum(1) <= 4**BITS).all()
    assert not whole[3:6].any()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 4097])
def test_single_numbers(count):
    x = normal(count, scale=4.0)
    if count > 7:
        x[:7] = torch.tensor([0.0, -0.0, torch.nan, torch.inf, -torch.inf, -800.0, 1e-320])
    same(compiled().selu(x), _torch_products.selu(x))


@pytest.mark.parametrize("classes", [1, 2, 7, 40])
def test_slopes_of_classes(classes):
    scores, y = normal(60, classes, scale=20.0), torch.arange(60) % (classes + 1) - 1
    scores[3, 0], scores[4, -1], scores[5, 0] = torch.nan, torch.inf, -torch.inf
    same(compiled().class_slope(scores, y), _torch_products.class_slope(scores, y))


def test_sums_that_ignore_what_an_int32_holds_are_caught(monkeypatch):
    """The rows' largest entries decide where runs end: one run of all rows overflows."""
    rows, slopes = torch.full((40, LANES), 2**BITS, dtype=torch.int16), torch.full((40, 1), 2**BITS, dtype=torch.int16)
    expected = _torch_products.outer_sums(slopes, rows, 5)
    found = compiled()
    assert torch.equal(found.outer_sums(slopes, rows, 5), expected)
    monkeypatch.setattr(found, "_peaks", lambda rows: torch.ones(len(rows), dtype=torch.int32))
    assert not torch.equal(found.outer_sums(slopes, rows, 5), expected)


def test_roots_are_rounded_correctly():
    """Squared exactly, the root lies between those of the neighbors halfway to the next doubles."""
    squares = normal(3000).square() * 100
    for square, root in zip(squares.tolist(), _torch_products.roots(squares).tolist(), strict=True):
        below, above = (Fraction(root) + Fraction(math.nextafter(root, end)) for end in (0.0, math.inf))
        assert (below / 2) ** 2 <= Fraction(square) <= (above / 2) ** 2


def test_torch_computes_where_nothing_was_compiled(monkeypatch):
    monkeypatch.setattr(_native, "library", lambda: None)
    assert chosen.products.__wrapped__().NAME == "Torch"


def test_every_kind_of_vector_unit_gives_the_same_bits(monkeypatch):
    """What the processor offers decides on speed alone: the best, AVX2 and plain C are tried by their own names."""
    library, best = _native.library(), compiled()
    rows, slopes = integers(101, 77, 2**BITS), integers(101, 19, 2**BITS, seed=1)[:, :19].contiguous()
    norms, x = normal(101).abs(), normal(3000, scale=3.0)
    weights, scales = integers(19, 77, 2**BITS, seed=2), normal(19).abs()
    expected = [best.outer_sums(slopes, rows, 77), best.multiply(rows, norms, weights, scales, None), *best.selu(x)]
    top = library.use_level(-1)
    try:
        for level in range(top + 1):
            assert library.use_level(level) == level
            found = [
                best.outer_sums(slopes, rows, 77),
                best.multiply(rows, norms, weights, scales, None),
                *best.selu(x),
            ]
            assert all(map(torch.equal, found, expected))
    finally:
        library.use_level(top)
    assert np.isfinite(expected[1].numpy()).all()


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
    q = (normal(9, 5, seed=3) * 100).to(torch.int16)
    outer, ones = rows.outer_sums(q)
    assert torch.equal(outer, (q.double().T @ rows.integers()[:, :-1].double()).long())
    assert bool(ones.any()) == bias


def test_wrong_types_and_shapes_are_refused():
    best, rows = compiled(), integers(4, 5, 100)
    with pytest.raises(TypeError, match="float64 in C order"):
        best.whole_rows(torch.zeros(4, 5), 100.0, bias=False)
    with pytest.raises(TypeError, match="float64 in C order"):
        best.whole_rows(normal(5, 4).T, 100.0, bias=False)
    with pytest.raises(ValueError, match="padded columns"):
        best.multiply(rows, normal(4), integers(2, 40, 100), normal(2), None)
    with pytest.raises(ValueError, match="4 classes"):
        best.class_slope(normal(4, 2), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(TypeError, match="int64 in C order"):
        best.class_slope(normal(4, 2), torch.zeros(4, dtype=torch.int32))
