"""Attributes of a PyTorch Geometric ``Data`` become arrays, whatever their type, layout or device; masks become roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from sfumato.errors import DataError

if TYPE_CHECKING:
    from torch_geometric.data import Data

MASKS = ("train_mask", "val_mask", "test_mask")
_SPARSE_NODES = 64


def dense(value: Any, name: str) -> np.ndarray:
    """Return a tensor, an array or a list as an array; types that NumPy lacks, such as bfloat16, become float32."""
    try:
        if hasattr(value, "detach"):
            value = _known(value.detach().cpu())
            value = (value if str(value.layout) == "torch.strided" else value.to_dense()).numpy()
        found = np.asarray(value)
    except (AttributeError, TypeError, ValueError, RuntimeError, NotImplementedError):
        raise _refusal(value, name) from None
    if found.dtype.kind not in "iubf":
        raise _refusal(value, name)
    return found


def features(x: Any) -> Any:
    """Return features as a new array, or as CSR if they are sparse; None stays None."""
    if x is None or sp.issparse(x):
        return x
    sparse = hasattr(x, "detach") and str(getattr(x, "layout", "torch.strided")) != "torch.strided"
    if not sparse:
        return dense(x, "x").copy()
    try:
        entries = _known(x.detach().cpu()).to_sparse_coo().coalesce()
        if entries.dense_dim() or entries.sparse_dim() != 2:
            return entries.to_dense().numpy()
        return sp.csr_matrix((entries.values().numpy(), entries.indices().numpy()), shape=tuple(entries.shape))
    except (AttributeError, TypeError, ValueError, RuntimeError, NotImplementedError):
        raise _refusal(x, "x") from None


def count_nodes(data: Data, num_arcs: int) -> int:
    """Count the nodes: what ``num_nodes``, ``x``, ``y`` or a mask says, else one above the largest end of an arc."""
    if "num_nodes" not in data:
        for name in ("x", "y", *MASKS):
            shape = getattr(getattr(data, name, None), "shape", None)
            if shape is not None and len(shape):
                return int(shape[0])
    found = int(data.num_nodes or 0)
    if "num_nodes" not in data and found > _SPARSE_NODES * (num_arcs + 1):
        raise DataError(
            "Expected data.num_nodes beside edge_index, got none, and ends of arcs far above the number of arcs. Set it; if "
            "these are ids of nodes, number the nodes from 0 first."
        )
    return found


def roles(data: Data, num_nodes: int) -> np.ndarray | None:
    """Return the roles that the three masks give, uint8 [num_nodes]; None without masks."""
    found = [(code, mask) for code, mask in enumerate(MASKS) if getattr(data, mask, None) is not None]
    if not found:
        return None
    given = np.full(num_nodes, 3, dtype=np.uint8)
    for code, mask in found:
        values = dense(data[mask], mask)
        if values.shape != (num_nodes,) or values.dtype != bool:
            raise DataError(
                f"Expected {mask} to be bool [{num_nodes}], got {values.dtype} of shape {values.shape}. {_advice(mask, values)}"
            )
        if (given[values] != 3).any():
            node = int(np.flatnonzero(values & (given != 3))[0])
            raise DataError(f"Expected a node in one mask at most, but node {node} is in two. Correct {mask}.")
        given[values] = code
    return given


def _advice(mask: str, values: np.ndarray) -> str:
    if values.ndim == 2:
        return "Choose one split: data.train_mask = data.train_mask[:, 0], and so on."
    if values.dtype == bool:
        return "Give one True or False a node."
    if values.ndim == 1 and values.size and not np.isin(values, (0, 1)).all():
        return (
            f"For numbers of nodes, make a mask: mask = torch.zeros(data.num_nodes, dtype=torch.bool); mask[numbers] = True; "
            f"data.{mask} = mask."
        )
    return f"Convert it, if it is a mask: data.{mask} = data.{mask}.bool()."


def _known(tensor: Any) -> Any:
    """The tensor, in float32 if NumPy does not know its floats."""
    if tensor.is_floating_point() and str(tensor.dtype) not in ("torch.float16", "torch.float32", "torch.float64"):
        return tensor.float()
    return tensor.resolve_conj().resolve_neg()


def _refusal(value: Any, name: str) -> DataError:
    kind = getattr(value, "dtype", type(value).__name__)
    return DataError(f"Expected data.{name} to be a tensor of numbers, got {kind}. Convert it with torch.as_tensor.")
