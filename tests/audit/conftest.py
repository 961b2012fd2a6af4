"""Keeps to one thread: many small fits gain nothing from two."""

import pytest


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
