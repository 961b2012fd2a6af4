"""Plain networks: they know no privacy, and no graph beyond the matrix that a caller passes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from sfumato.loops._products import products
from sfumato.nn._reproducible import attention, selu
from sfumato.nn._stored import StoredRows

COMBINE = ("cat", "sum", "attention")
"""How hops become one row for a head."""

if TYPE_CHECKING:
    import scipy.sparse as sp


class SparseRows:
    """A constant sparse matrix is stored with its transpose, so that products and their gradients both read rows."""

    def __init__(self, matrix: sp.csr_matrix) -> None:
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        self.shape = matrix.shape
        self.matrix = _to_torch(matrix, torch.float32)
        self.transposed = _to_torch(matrix.T.tocsr(), torch.float32)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _SparseProduct.apply(self, dense)

    def scipy(self) -> sp.csr_matrix:
        """Return the matrix as SciPy has it, with the same numbers."""
        import scipy.sparse as sp

        parts = self.matrix.values(), self.matrix.col_indices(), self.matrix.crow_indices()
        return sp.csr_matrix(tuple(part.numpy() for part in parts), self.shape)


def _to_torch(matrix: sp.csr_matrix, dtype: torch.dtype) -> Tensor:
    index = torch.int64 if matrix.nnz > np.iinfo(np.int32).max else torch.int32
    indptr, indices, data = (
        np.require(part, requirements="W") for part in (matrix.indptr, matrix.indices, matrix.data)
    )
    return csr_tensor(
        torch.as_tensor(indptr, dtype=index),
        torch.as_tensor(indices, dtype=index),
        torch.as_tensor(data, dtype=dtype),
        matrix.shape,
    )


def csr_tensor(indptr: Tensor, indices: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """Build a sparse matrix from its parts, without a check and without Torch's warning that sparse tensors are in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(indptr, indices, values, size=shape, check_invariants=False)


Rows: TypeAlias = Tensor | SparseRows | StoredRows
"""What a first layer reads."""


class _SparseProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: SparseRows, dense: Tensor) -> Tensor:
        ctx.rows = rows
        return rows.matrix @ dense

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        return None, ctx.rows.transposed @ grad


class _NormalizeRows(torch.autograd.Function):
    """Rows over their norm; the gradient takes out the part along the row."""

    generate_vmap_rule = True

    @staticmethod
    def forward(rows: Tensor) -> tuple[Tensor, Tensor]:
        norms = torch.linalg.vector_norm(rows, dim=-1, keepdim=True).clamp_min(1e-12)
        return rows / norms, norms

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(*output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tensor:
        unit, norms = ctx.saved_tensors
        along = torch.linalg.vecdot(grad, unit).unsqueeze(-1)
        return (grad - unit * along) / norms


class _ExactNormalize(torch.autograd.Function):
    """The same of float64 rows, whose sums are added in one order, so that a row has the same bits at any place."""

    @staticmethod
    def forward(rows: Tensor) -> tuple[Tensor, Tensor]:
        return products().normalize(rows)

    setup_context = _NormalizeRows.setup_context

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> Tensor:
        slope: Tensor = _ExactSlope.apply(grad, *ctx.saved_tensors)
        return slope

    @staticmethod
    def vmap(_: Any, dims: tuple[int], rows: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """Of many examples at once: each row by itself."""
        return _ExactNormalize.apply(rows.movedim(dims[0], 0)), (0, 0)


class _ExactSlope(torch.autograd.Function):
    """The gradient of :class:`_ExactNormalize`, a function of its own for the sake of ``vmap``."""

    @staticmethod
    def forward(grad: Tensor, unit: Tensor, norms: Tensor) -> Tensor:
        return products().normalize_slope(grad, unit, norms)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Keep nothing: there is no second derivative."""

    @staticmethod
    def vmap(info: Any, dims: tuple[int | None, ...], *given: Tensor) -> tuple[Tensor, int]:
        """Of many examples at once: each row by itself."""
        moved = (
            one.expand(info.batch_size, *one.shape) if dim is None else one.movedim(dim, 0)
            for one, dim in zip(given, dims, strict=True)
        )
        return _ExactSlope.apply(*(one.contiguous() for one in moved)), 0


def normalize(rows: Tensor) -> Tensor:
    """Scale rows to norm 1. The bits of a row of float64 numbers depend on this row alone."""
    if rows.dtype == torch.float64:
        return _ExactNormalize.apply(rows)[0]
    return _NormalizeRows.apply(rows)[0]


class Linear(nn.Linear):
    """A linear layer takes a dense tensor, :class:`SparseRows` or :class:`~sfumato.nn._stored.StoredRows`."""

    def reset_parameters(self) -> None:
        """Set the initial parameters; without inputs there is at most a bias, and nothing to draw."""
        if self.in_features:
            super().reset_parameters()
        elif self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Rows) -> Tensor:
        return super().forward(x) if isinstance(x, Tensor) else x @ self.weight.T + self.bias


class MLP(nn.Module):
    """A multilayer perceptron has linear layers with SELU between them, and batch norm before each SELU if wanted.

    Batch norm never stands in per-example private training. With ``plain_last`` the last layer has neither norm nor SELU.
    """

    def __init__(self, widths: Sequence[int], *, batch_norm: bool = False, plain_last: bool = True) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Linear(a, b) for a, b in pairwise(widths)])
        self.num_activated = len(self.layers) - plain_last
        hidden = widths[1 : 1 + self.num_activated]
        self.norms = nn.ModuleList([nn.BatchNorm1d(width) for width in hidden] if batch_norm else [])

    def forward(self, x: Rows) -> Tensor:
        out: Tensor = self.layers[0](x)
        for i, layer in enumerate(self.layers):
            out = layer(out) if i else out
            if i < self.num_activated:
                out = selu(self.norms[i](out) if len(self.norms) else out)
        return out


class Encoder(nn.Module):
    """GAP's encoder is an MLP: its normalized last hidden layer is the encoding, and its head serves pre-training alone.

    Source: Sajadmanesh et al. (2023), GAP, equations 4.3 to 4.6.
    """

    def __init__(
        self, num_features: int, width: int, num_classes: int, *, num_layers: int = 2, batch_norm: bool
    ) -> None:
        super().__init__()
        self.mlp = MLP((num_features, *([width] * num_layers)), batch_norm=batch_norm, plain_last=False)
        self.head = Linear(width, num_classes)

    def encode(self, x: Rows) -> Tensor:
        """Compute the rows that leave for aggregation, of norm 1."""
        return normalize(self.mlp(x))

    def forward(self, x: Rows) -> Tensor:
        return self.head(self.encode(x))


class MultiHopClassifier(nn.Module):
    r"""GAP's classifier maps each hop by a linear map of its own, combines, normalizes, and ends with SELU and a linear head.

    With :math:`H_k` the mapped hop k, ``cat`` puts all side by side, ``sum`` adds them, and ``attention`` adds
    :math:`\sum_k \alpha_k H_k`, where :math:`\alpha = \mathrm{softmax}(a_0 \cdot H_0 + b_0, \dots, a_K \cdot H_K + b_K)`
    for each row. Each hop has a score map of its own, so that an example meets every layer once: gradients of single
    examples are clipped by the norm trick.

    There is one map for each of the hops 0 to K = ``num_hops``.

    Source: Sajadmanesh et al. (2023), GAP, equations 4.10 to 4.12.
    """

    def __init__(
        self,
        num_hops: int,
        width: int,
        num_classes: int,
        *,
        batch_norm: bool,
        input_width: int | None = None,
        combine: str = "cat",
    ) -> None:
        super().__init__()
        stages = range(num_hops + 1)
        self.combine, joint = combine, width * len(stages) if combine == "cat" else width
        self.base = nn.ModuleList([Linear(input_width or width, width) for _ in stages])
        self.score = nn.ModuleList([Linear(width, 1) for _ in stages] if combine == "attention" else [])
        self.norm = nn.BatchNorm1d(joint) if batch_norm else nn.Identity()
        self.head = Linear(joint, num_classes)

    def forward(self, hops: Tensor) -> Tensor:
        mapped = [base(hops[:, k]) for k, base in enumerate(self.base)]
        if self.combine == "attention":
            scores = torch.cat([score(rows) for score, rows in zip(self.score, mapped, strict=True)], dim=1)
            joint = attention(scores, torch.stack(mapped, dim=1))
        else:
            joint = torch.cat(mapped, dim=1) if self.combine == "cat" else reduce(torch.add, mapped)
        return self.head(selu(self.norm(normalize(joint))))


class GraphSAGE(nn.Module):
    """GraphSAGE adds a map of a node's row and one of its neighbors' mean, in two layers or as many as are asked for.

    The matrix holds the weights of the mean, or ones for a sum. Projecting first and propagating then is the same, and cheaper.

    Source: Hamilton et al. (2017), mean aggregator.
    """

    def __init__(self, num_features: int, width: int, num_classes: int, *, num_layers: int = 2) -> None:
        super().__init__()
        ends = [*pairwise((num_features, *[width] * (num_layers - 1), num_classes))]
        self.own = nn.ModuleList([Linear(*two) for two in ends])
        self.neighbor = nn.ModuleList([Linear(*two) for two in ends])
        for i in range(1, num_layers):  # kept runs of two layers call the first "norm"
            self.add_module(f"norm{i}" if i > 1 else "norm", nn.BatchNorm1d(width))
        self.norms = [module for name, module in self.named_children() if name.startswith("norm")]

    def forward(self, x: Rows, adjacency: SparseRows) -> Tensor:
        hidden = x
        for i, (own, neighbor) in enumerate(zip(self.own, self.neighbor, strict=True)):
            out: Tensor = own(hidden) + adjacency @ neighbor(hidden)
            hidden = selu(self.norms[i](out)) if i < len(self.norms) else out
        return out
