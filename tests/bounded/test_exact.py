"""Rows as whole numbers: what they stand for, their norms, and products that are exact up to the last allowed row."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from sfumato.bounded import _exact as exact
from sfumato.bounded._exact import CHUNK, GRADIENT_BITS, MOST_ROWS, ROW_BITS, WholeRows
from sfumato.errors import InputError


def normal(*shape, scale=1.0, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * scale


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("columns", [1, 7, 3000])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_rows_come_back_and_no_norm_is_above_the_bound(bias, columns, scale):
    x = normal(20, columns, scale=scale)
    rows = WholeRows.of(x, bias=bias)
    assert torch.equal(rows.matrix, rows.matrix.round())
    for whole, one in zip(rows.matrix.tolist(), rows.ones.tolist(), strict=True):
        assert sum(int(entry) ** 2 for entry in (*whole, one)) <= 4**ROW_BITS
    step = rows.norms / 2.0**ROW_BITS
    assert ((rows.matrix * step[:, None] - x).abs() <= 0.5001 * step[:, None]).all()
    assert ((rows.ones * step - float(bias)).abs() <= 0.5001 * step).all()
    assert ((rows.matrix.square().sum(1) + rows.ones.square()).sqrt() >= 0.99 * 2.0**ROW_BITS).all()


def test_sparse_rows_are_the_dense_ones_whatever_the_storage(monkeypatch):
    monkeypatch.setattr(exact, "CHUNK", 8)
    dense = np.round(normal(30, 6).numpy(), 1) * (normal(30, 6, seed=1).numpy() > 0)
    stored = sp.csr_matrix(dense)
    twice = sp.csr_matrix((np.repeat(stored.data / 2, 2), np.repeat(stored.indices, 2), 2 * stored.indptr), dense.shape)
    for rows in (WholeRows.of_csr(stored), WholeRows.of_csr(twice)):
        expected = WholeRows.of(torch.from_numpy(dense), bias=True)
        assert torch.equal(rows.matrix.to_dense(), expected.matrix)
        assert torch.equal(rows.ones, expected.ones)
        assert len(rows.transposed) == 4
        q = normal(30, 2, scale=1e5).round()
        assert all(map(torch.equal, rows.outer_sums(q), expected.outer_sums(q)))
        weight = normal(6, 4)
        torch.testing.assert_close(rows.times(weight), expected.times(weight), rtol=1e-14, atol=0)
        torch.testing.assert_close(rows.times(weight), torch.from_numpy(dense) @ weight, rtol=1e-3, atol=1e-3)


def extreme(rows):
    """Odd entries as large as they may be, all of one sign: the largest sum, of which no bit may be lost."""
    p = torch.full((rows, 1), 2.0**ROW_BITS - 1, dtype=torch.float64)
    whole = WholeRows(p, torch.zeros(rows, dtype=torch.float64), torch.ones(rows, dtype=torch.float64))
    q = torch.full((rows, 1), 2.0**GRADIENT_BITS - 1, dtype=torch.float64)
    return int(whole.outer_sums(q)[0]) - rows * (2**ROW_BITS - 1) * (2**GRADIENT_BITS - 1)


def test_sums_are_exact_up_to_the_last_row_of_a_chunk_and_beyond():
    assert [extreme(rows) for rows in (1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 3)] == [0] * 5


def test_longer_chunks_would_lose_bits(monkeypatch):
    monkeypatch.setattr(exact, "CHUNK", 8 * CHUNK)
    assert extreme(5 * CHUNK + 3) != 0


def test_products_with_weights_are_exact_in_any_order():
    """Columns permuted, so that terms are added in another order: the same bits. Plain products differ."""
    x, weight, order = normal(40, 501), normal(501, 3), torch.randperm(501, generator=torch.Generator().manual_seed(1))
    rows = WholeRows.of(x)
    again = WholeRows(rows.matrix[:, order], rows.ones, rows.norms)
    assert torch.equal(rows.times(weight), again.times(weight[order]))
    assert not torch.equal(x @ weight, x[:, order] @ weight[order])


def test_more_rows_than_64_bits_hold_are_refused():
    few = torch.zeros(1, 1, dtype=torch.float64)
    with pytest.raises(InputError, match="Lower the batch size"):
        WholeRows.of(few).outer_sums(few.expand(MOST_ROWS + 1, 1))
