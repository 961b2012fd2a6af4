"""Arrays whose owner others can write to are checked again before a charge, however they are seen by NumPy."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato.errors import DataError
from sfumato.graph import Graph
from sfumato.graph._again import checked_again

EYE = np.eye(4, dtype=np.float32)


def mapped(folder):
    """A file behind a read-only memory map, and what changes it."""
    EYE.tofile(folder / "x")
    return np.memmap(folder / "x", np.float32, "r", shape=(4, 4)), np.memmap(
        folder / "x", np.float32, "r+", shape=(4, 4)
    )


def lent(_):
    memory = bytearray(EYE.tobytes())
    shown = np.frombuffer(memory, np.float32).reshape(4, 4)
    return shown, np.frombuffer(memory, np.float32).reshape(4, 4)


def tensor(_):
    held = torch.eye(4)
    return held.numpy(), held


def tensor_behind_bytes_like(_):
    held = torch.eye(4)
    return np.asarray(memoryview(held.numpy())), held


@pytest.mark.parametrize("source", [mapped, lent, tensor, tensor_behind_bytes_like])
def test_read_only_views_of_what_others_can_write_to_are_checked_again(source, tmp_path):
    x, owner = source(tmp_path)
    x = x.view()
    x.flags.writeable = False
    graph = replace(Graph.from_edges([0, 1], [1, 2], 4, directed=False), x=x)
    assert checked_again(graph).num_features == 4
    owner[1, 2] = np.inf
    with pytest.raises(DataError, match=r"x\[1, 2\] is not"):
        checked_again(graph)


def test_immutable_bytes_are_not_checked_again(monkeypatch):
    graph = replace(
        Graph.from_edges([0], [1], 4, directed=False), x=np.frombuffer(EYE.tobytes(), np.float32).reshape(4, 4)
    )
    seen = checked_again(graph)
    assert seen.stored_x is graph.stored_x
