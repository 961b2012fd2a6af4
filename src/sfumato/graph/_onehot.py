"""One-hot rows are built here as a sparse matrix."""

from __future__ import annotations

import numpy as np
import scipy.sparse


def one_hot_rows(positions: np.ndarray, num_columns: int) -> scipy.sparse.csr_matrix:
    """Put a one at each position of a row: float32 CSR [num_rows, num_columns]; positions rise in a row, -1 is missing."""
    present = positions >= 0
    indptr = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int32)
    indices = positions[present].astype(np.int32)
    ones = np.ones(len(indices), dtype=np.float32)
    return scipy.sparse.csr_matrix((ones, indices, indptr), shape=(len(positions), num_columns))
