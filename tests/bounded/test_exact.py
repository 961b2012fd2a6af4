"""Rows as whole numbers: what they stand for, their norms, and products that are exact up to the last allowed row."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sfumato.bounded._exact import GRADIENT_BITS, MOST_ROWS, ROW_BITS, WholeRows, check_rows
from sfumato.errors import InputError
from sfumato.loops._products import products


def normal(*shape, scale=1.0, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * scale


def outer_sums(rows, q):
    """The sums over rows of q p^T, and of q times the bias's input: slopes that are whole numbers are not clipped."""
    weight, bias = torch.zeros(q.shape[1], rows.width, dtype=torch.int64), torch.zeros(q.shape[1], dtype=torch.int64)
    matrix, _ = rows.summed
    ones = torch.ones(len(q), dtype=torch.float64)
    products().clipped_sums([q.double()], [(matrix, ones)], 2.0**40, 1.0, [(weight, bias)])
    return weight, bias


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [1, 7, 3000])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_rows_come_back_and_no_norm_is_above_the_bound(bias, columns, scale):
    x = normal(20, columns, scale=scale)
    rows = WholeRows.of(x, bias=bias)
    whole, step = rows.integers().double(), (rows.norms / 2.0**ROW_BITS)[:, None]
    assert (whole.square().sum(1) <= 4**ROW_BITS).all()
    assert (whole.square().sum(1).sqrt() >= 0.99 * 2.0**ROW_BITS).all()
    expected = torch.nn.functional.pad(x, (0, 1), value=float(bias))
    assert ((whole * step - expected).abs() <= 0.5001 * step).all()


def test_sparse_rows_are_the_dense_ones_whatever_the_storage():
    dense = np.round(normal(30, 6).numpy(), 1) * (normal(30, 6, seed=1).numpy() > 0)
    stored = sp.csr_matrix(dense)
    twice = sp.csr_matrix((np.repeat(stored.data / 2, 2), np.repeat(stored.indices, 2), 2 * stored.indptr), dense.shape)
    for rows in (WholeRows.of_csr(stored), WholeRows.of_csr(twice)):
        expected = WholeRows.of(torch.from_numpy(dense), bias=True)
        assert torch.equal(rows.integers(), expected.integers())
        q = (normal(30, 2) * 1000).to(torch.int16)
        assert all(map(torch.equal, outer_sums(rows, q), outer_sums(expected, q)))
        weight, bias = normal(6, 4), normal(4)
        torch.testing.assert_close(rows.times(weight, bias), expected.times(weight, bias), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(rows.times(weight), torch.from_numpy(dense) @ weight, rtol=1e-2, atol=1e-2)


def test_chosen_rows_are_the_same_rows():
    stored, ids = sp.random(30, 6, 0.4, format="csr", random_state=0), torch.tensor([7, 0, 29])
    q, weight, bias = (normal(3, 2) * 1000).to(torch.int16), normal(6, 4), normal(4)
    for rows in (WholeRows.of_csr(stored), WholeRows.of(torch.from_numpy(stored.toarray()), bias=True)):
        chosen = rows[ids]
        assert torch.equal(chosen.integers(), rows.integers()[ids])
        assert torch.equal(chosen.times(weight, bias), rows.times(weight, bias)[ids])
        assert torch.equal(outer_sums(chosen, q)[0], (q.double().T @ rows.integers()[ids, :6].double()).long())


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 8, 9, 1023, 1025])
def test_the_largest_entries_lose_no_bit(rows):
    """Entries as large as they may be, all of one sign: the largest sum."""
    whole = WholeRows(torch.full((rows, 32), 2**ROW_BITS, dtype=torch.int16), torch.ones(rows).double(), 5)
    q = torch.full((rows, 1), 2**GRADIENT_BITS, dtype=torch.int16)
    outer, ones = outer_sums(whole, q)
    assert (outer == rows * 2 ** (ROW_BITS + GRADIENT_BITS)).all()
    assert (ones == rows * 2 ** (ROW_BITS + GRADIENT_BITS)).all()


def test_products_with_weights_are_exact_in_any_order():
    """Columns permuted, so that terms are added in another order: the same bits. Plain products differ."""
    x, order = normal(40, 501), torch.randperm(501, generator=torch.Generator().manual_seed(1))
    weight = (normal(501, 3) * 100).round()  # so that their squares are whole, and their norms the same in any order
    rows = WholeRows.of(x)
    permuted = WholeRows(rows.matrix[:, torch.cat([order, torch.arange(501, 512)])].contiguous(), rows.norms, 501)
    assert torch.equal(rows.times(weight), permuted.times(weight[order]))
    assert not torch.equal(x @ normal(501, 3), x[:, order] @ normal(501, 3)[order])


def test_more_rows_than_64_bits_hold_are_refused():
    with pytest.raises(InputError, match="Lower the batch size"):
        check_rows(MOST_ROWS + 1)
