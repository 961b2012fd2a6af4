"""Methods that train a network of two layers on groups of nodes share this: its first weights, plain training, and scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sfumato.bounded._gradients import PrivateSGD
from sfumato.bounded._split_gradients import split_steps
from sfumato.bounded._splits import unit_rows
from sfumato.errors import InputError
from sfumato.nn._training import Adam
from sfumato.nn._weights import seeded
from sfumato.privacy.events import SampledEvent

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.bounded._split_gradients import Optimizer, SplitNetwork
    from sfumato.bounded._split_kernel import Floats
    from sfumato.graph._graph import Graph, PublicFacts
    from sfumato.method.contract import Arrays, Planned, Session


def num_weights(public: PublicFacts, width: int) -> int:
    """Return the number of parameters of two layers with ``width`` units between them; ``public`` has the other sizes."""
    return public.num_features * width + width + (width + 1) * public.num_classes


def first_weights(public: PublicFacts, width: int, seed: int) -> Floats:
    """Return weights as Glorot draws them, and biases of zero, as one vector."""
    with seeded(seed):
        first = nn.init.xavier_uniform_(torch.empty(public.num_features, width, dtype=torch.float64))
        second = nn.init.xavier_uniform_(torch.empty(width, public.num_classes, dtype=torch.float64))
    parts = first, torch.zeros(width), second, torch.zeros(public.num_classes)
    return np.concatenate([part.double().numpy().ravel() for part in parts])


def train_plainly(
    network: SplitNetwork,
    start: Floats,
    steps: int,
    learning_rate: float,
    optimizer: Optimizer,
    seen: Callable[[int, Floats], None] | None = None,
) -> Floats:
    """Train on all groups at every step, without clipping and noise: nothing is protected."""
    vector = nn.Parameter(torch.from_numpy(start))
    groups = np.arange(network.split.num_groups)
    descent = optimizer([vector], learning_rate)
    for step in range(steps):
        descent.grad.copy_(torch.from_numpy(network.gradient(descent.flat.numpy(), groups, step) / len(groups)))
        descent.step()
        if seen is not None:
            seen(step + 1, descent.flat.numpy())
    return descent.flat.numpy()


def check_features(graph: Graph) -> None:
    """Refuse a graph without features, of which every prediction would be the same."""
    if not graph.num_features:
        raise InputError("Expected a graph with features, got no column. Give features, or use label-messages.")


def train_split(
    settings: Any,
    plan: Planned,
    session: Session,
    make: Callable[[], SplitNetwork],
    optimizer: Optimizer = Adam,
    seen: Callable[[int, Floats], None] | None = None,
) -> Arrays:
    """Train the network that is made after the charge, by DP-SGD with a group as the example; without privacy plainly.

    ``seen`` is shown the parameters after each step, which are as public as the last ones.
    """
    start = first_weights(plan.public, settings.width, session.seed)
    if not plan.unit.private:
        flat = train_plainly(make(), start, settings.steps, settings.learning_rate, optimizer, seen)
        return weight_arrays(plan.public, settings.width, flat)
    event, told, key = (
        plan.event_of(SampledEvent, "network"),
        session.watch.stage("network"),
        session.charge("network"),
    )
    sgd = PrivateSGD(
        event.sampling_prob, event.steps, settings.l2_clip_norm, event.noise_multiplier, settings.learning_rate
    )
    left_out = event.relation == "add-remove"
    flat, operands = split_steps(
        make(), start, sgd, key, leave_out=left_out, optimizer=optimizer, progress=told, seen=seen
    )
    session.bind("network", np.frombuffer(operands, np.uint8))
    return weight_arrays(plan.public, settings.width, flat)


def weight_arrays(public: PublicFacts, width: int, flat: Floats) -> Arrays:
    """Return the parameters by name, each layer as [outputs, inputs], float32."""
    sizes = np.cumsum([public.num_features * width, width, width * public.num_classes])
    first, first_bias, second, second_bias = np.split(flat.astype(np.float32), sizes)
    return {
        "network.first.weight": np.ascontiguousarray(first.reshape(-1, width).T),
        "network.first.bias": first_bias,
        "network.second.weight": np.ascontiguousarray(second.reshape(width, public.num_classes).T),
        "network.second.bias": second_bias,
    }


def own_scores(weights: Arrays, graph: Graph) -> NDArray[np.float32]:
    """Apply the network to each node as if it had no neighbors, [num_nodes, num_classes]."""
    return layers(weights, unit_rows(graph), None)


def layers(weights: Arrays, rows: Any, hop: Any) -> NDArray[np.float32]:
    """Apply both layers to rows, with a hop between them unless it is None, [num_nodes, num_classes]."""
    hidden = hidden_rows(weights, rows)
    mixed = hidden if hop is None else hop @ hidden
    scores = mixed @ weights["network.second.weight"].T + weights["network.second.bias"]
    return np.asarray(scores, np.float32)


def hidden_rows(weights: Arrays, rows: Any) -> NDArray[np.float32]:
    """Apply the first layer to rows, [num_rows, width]."""
    hidden: NDArray[np.float32] = np.maximum(
        rows @ weights["network.first.weight"].T + weights["network.first.bias"], 0
    )
    return hidden
