"""The published weight of the l1 norm on MNIST: digits under scores, black images under probabilities."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from sfumato.attacks._inversion import Inversion
from sfumato.datasets._loading import load_dataset
from sfumato.nn._weights import seeded


@pytest.mark.data
def test_only_scores_outweigh_the_published_l1_norm(data_dir):
    """Softmax regression, two passes over 10,000 training images (seed 0)."""
    graph = load_dataset("mnist", data_dir, split="public")
    rows = np.flatnonzero(graph.train_mask)[:10_000]
    x, y = torch.from_numpy(graph.x[rows]), torch.from_numpy(graph.y[rows])
    with seeded(0):
        network = torch.nn.Linear(784, 10)
        adam = torch.optim.Adam(network.parameters(), 0.003)
        for batch in (*torch.randperm(len(x)).split(100), *torch.randperm(len(x)).split(100)):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(network(x[batch]), y[batch]).backward()
            adam.step()
    found = {}
    for target in ("score", "probability"):
        attack = replace(Inversion.digits(), steps=1000, target=target)
        images = attack.invert(network, (1, 28, 28), range(10))
        said = network(torch.from_numpy(images).flatten(1)).softmax(1).detach().numpy()
        found[target] = said.diagonal().mean(), np.mean(images.mean(axis=(1, 2, 3)) < 0.005)
    assert found["score"] == pytest.approx((1.0, 0.0), abs=0.1)  # the class is reached, and no image is black
    confidence, black = found["probability"]
    assert confidence < 0.7
    assert black > 0.4
