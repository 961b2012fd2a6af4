"""Trains graph-free models for one step.

Those models read no arc, and stand beside releases that do: how long they train changes nothing that these tests look at.
"""

import pytest

from sfumato.central import _graph_free as graph_free


@pytest.fixture(autouse=True)
def _one_step(monkeypatch):
    train = graph_free.train
    monkeypatch.setattr(graph_free, "train", lambda *given, **how: train(*given, **{**how, "epochs": 1}))
