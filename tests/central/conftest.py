"""One thread for tiny graphs, and a fit key that does not change."""

import pytest
import torch


@pytest.fixture(scope="module", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def fixed_key(monkeypatch):
    """Every fit draws the same key, so that two fits can be compared bit by bit."""
    monkeypatch.setattr("sfumato.method.opening.new_key", lambda: bytes(range(32)))
