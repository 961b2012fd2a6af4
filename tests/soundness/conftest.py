"""Keeps to one thread, since many tiny graphs gain nothing from two, and trains graph-free models for one step.

Those models read no arc, and stand beside releases that do: how long they train changes nothing that these tests look at.
"""

import pytest

from sfumato.central import _graph_free as graph_free


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    import numba
    import torch

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


@pytest.fixture(autouse=True)
def _one_step(monkeypatch):
    train = graph_free.train
    monkeypatch.setattr(graph_free, "train", lambda *given, **how: train(*given, **{**how, "epochs": 1}))
