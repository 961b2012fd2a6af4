"""What the parts that compute private sums refuse before they compute anything."""

import numpy as np
import pytest
import torch
from torch import nn

from sfumato.bounded._gradients import PrivateSGD, private_steps
from sfumato.bounded._routing import share
from sfumato.errors import InputError


def test_every_row_needs_its_out_degree():
    assert share(np.ones((2, 1), np.float32), np.array([1, 1])).shape == (2, 1)
    with pytest.raises(InputError, match="Expected out_degree to be one for each of 2 rows"):
        share(np.ones((2, 1), np.float32), np.array([1]))


def test_private_steps_need_somebody_to_learn_from():
    def batch(chosen):
        return torch.ones(len(chosen), 1, dtype=torch.float64), torch.zeros(len(chosen), dtype=torch.int64)

    settings, model = PrivateSGD(1, 1, 1, 1, 1), nn.Linear(1, 2).double()
    assert private_steps(model, batch, np.arange(1), settings, bytes(32))
    with pytest.raises(InputError, match="Expected ids to hold the ids of the training role"):
        private_steps(model, batch, np.arange(0), settings, bytes(32))
