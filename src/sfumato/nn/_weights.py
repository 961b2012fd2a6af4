"""Weights of networks: started from a public seed, and carried to and from named arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn


def num_parameters(network: nn.Module) -> int:
    """Count the numbers that a network's parameters hold."""
    return sum(parameter.numel() for parameter in network.parameters())


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Let networks start from a public seed, without touching the caller's random state."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed also formats the call stack
        yield


def network_arrays(prefix: str, network: nn.Module) -> dict[str, NDArray[Any]]:
    """Return a network's state as arrays, each name with the prefix."""
    return {f"{prefix}.{key}": value.detach().numpy() for key, value in network.state_dict().items()}


def load_weights(network: nn.Module, weights: Mapping[str, NDArray[Any]], prefix: str) -> None:
    """Put the arrays of ``weights`` whose names have ``prefix`` into ``network``, and set it to evaluation."""
    start = prefix + "."
    network.load_state_dict({k.removeprefix(start): torch.tensor(v) for k, v in weights.items() if k.startswith(start)})
    network.eval()
