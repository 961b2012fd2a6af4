"""Presets hold published forms of the local methods as settings of :class:`~sfumato.local._lpgnn.LPGNN`.

``lpgnn-2021``: multi-bit with the published number of bits, randomized response, GraphSAGE, Drop, the published rule of
keeping an epoch, unscaled inputs, and the hops and hyper-parameters of the reference code. The thesis chose
those hops by the validation loss of GraphSAGE with Drop; they were used for every mechanism. They are known for each pair of
five epsilon_x and four epsilon_y, and for values in the clear; other budgets take the nearest. Other data sets take Cora's.

``pgc-2020``: the private graph convolution of the preprint: one bit about *every* feature, so a user spends d times
``epsilon_x``; labels in the clear; GCN of width 16 with ReLU, no extra hops, Adam, patience 20 on the validation loss after 10
epochs, last epoch. The thesis gives 32 and 16 for the two layers of classifier and encoder alike, but the last layer of a
classifier is as wide as there are classes; 16 is what the reference code has, and table 2.3 here shows 32 beside it. Other data
sets take Cora's. It was evaluated on Planetoid's public split; the ranges of features are public here, not read from the data as
there.

Source: Sajadmanesh and Gatica-Perez (2021), Locally Private Graph Neural Networks, and its reference code; Sajadmanesh and
Gatica-Perez (2020), When Differential Privacy Meets Graph Neural Networks, and its.
"""

from __future__ import annotations

import math
from typing import Any

from sfumato._validate import check_choice, check_real

PRESETS = ("lpgnn-2021", "pgc-2020")
_CORA = "planetoid/cora"
_Steps = tuple[tuple[int, int], ...]
_Row = tuple[float, float, float]

# Hops of features and of labels; a row for each epsilon_x and one for features in the clear, a column for each epsilon_y and
# one for labels in the clear.
_EPSILONS_X = (0.01, 0.1, 1.0, 2.0, 3.0)
_EPSILONS_Y = (0.5, 1.0, 2.0, 3.0)
_STEPS: dict[str, tuple[_Steps, ...]] = {
    _CORA: (
        ((4, 4), (8, 8), (8, 8), (8, 8), (8, 0)),
        ((0, 8), (2, 4), (16, 4), (8, 4), (16, 0)),
        ((2, 8), (2, 8), (8, 4), (16, 4), (16, 0)),
        ((8, 8), (4, 8), (8, 4), (16, 2), (16, 0)),
        ((2, 8), (16, 8), (8, 4), (16, 2), (16, 0)),
        ((4, 8), (0, 4), (0, 4), (0, 2), (0, 0)),
    ),
    "planetoid/pubmed": (
        ((16, 2), (16, 2), (16, 2), (16, 2), (16, 0)),
        ((4, 4), (8, 2), (8, 2), (16, 0), (16, 0)),
        ((0, 4), (4, 2), (16, 0), (16, 0), (16, 0)),
        ((0, 4), (4, 2), (16, 0), (16, 0), (16, 0)),
        ((0, 4), (4, 2), (16, 0), (16, 0), (16, 0)),
        ((0, 2), (0, 2), (0, 0), (0, 0), (0, 0)),
    ),
    "musae/facebook": (
        ((2, 4), (4, 2), (4, 2), (4, 2), (8, 0)),
        ((8, 4), (2, 4), (4, 2), (4, 2), (8, 0)),
        ((8, 4), (2, 4), (4, 2), (16, 0), (8, 0)),
        ((8, 4), (2, 4), (4, 2), (8, 0), (8, 0)),
        ((8, 4), (2, 4), (4, 2), (4, 2), (8, 0)),
        ((2, 2), (0, 2), (0, 2), (2, 0), (0, 0)),
    ),
    "lastfm_asia": (
        ((4, 4), (4, 4), (2, 4), (4, 2), (4, 0)),
        ((8, 4), (2, 4), (8, 2), (8, 4), (2, 0)),
        ((8, 8), (4, 4), (4, 4), (4, 2), (8, 0)),
        ((4, 8), (2, 4), (4, 4), (16, 0), (16, 0)),
        ((16, 8), (2, 4), (2, 4), (16, 0), (16, 0)),
        ((0, 4), (0, 2), (0, 2), (4, 0), (0, 0)),
    ),
}
# Learning rate, weight decay, dropout; keys say whether features and labels are private.
_TUNED: dict[str, dict[tuple[bool, bool], _Row]] = {
    _CORA: {
        (True, True): (0.01, 0.001, 0.5),
        (True, False): (0.01, 0.01, 0.75),
        (False, True): (0.01, 0.0001, 0.75),
        (False, False): (0.01, 0.01, 0.5),
    },
    "planetoid/pubmed": {
        (True, True): (0.01, 0.0001, 0.25),
        (True, False): (0.01, 0.01, 0.75),
        (False, True): (0.01, 0.0001, 0.0),
        (False, False): (0.01, 0.001, 0.25),
    },
    "musae/facebook": {
        (True, True): (0.001, 0.01, 0.5),
        (True, False): (0.01, 0.01, 0.75),
        (False, True): (0.01, 0.0001, 0.25),
        (False, False): (0.001, 0.0001, 0.75),
    },
    "lastfm_asia": {
        (True, True): (0.001, 0.0001, 0.75),
        (True, False): (0.01, 0.01, 0.75),
        (False, True): (0.01, 0.0001, 0.75),
        (False, False): (0.001, 0.01, 0.25),
    },
}
_PGC_TUNED: dict[str, _Row] = {
    _CORA: (0.01, 0.01, 0.5),
    "planetoid/citeseer": (0.01, 0.1, 0.5),
    "musae/twitch": (0.001, 0.0001, 0.0),
    "elliptic": (0.01, 0.0, 0.0),
    "flickr": (0.01, 0.0, 0.0),
}


def preset(name: str, dataset: str, epsilon_x: float | None = 1.0, epsilon_y: float | None = 1.0) -> dict[str, Any]:
    """Return the settings of a published form for a data set and budgets; None reads features, or labels, in the clear."""
    check_choice(PRESETS, preset=name)
    budgets: dict[str, Any] = {"epsilon_x": epsilon_x, "epsilon_y": epsilon_y}
    for which, value in budgets.items():
        if value is not None:
            check_real("For values in the clear use None.", low=0, open_low=True, **{which: value})
    if name == "pgc-2020":
        return _pgc(dataset, epsilon_x)
    key = dataset if dataset in _STEPS else _CORA
    steps = _STEPS[key][_nearest(_EPSILONS_X, epsilon_x)][_nearest(_EPSILONS_Y, epsilon_y)]
    return {
        "epsilon_x": epsilon_x,
        "epsilon_y": epsilon_y,
        "mechanism": "multi-bit",
        "paper_rule": True,
        "label_mechanism": "randomized-response",
        "steps_x": steps[0],
        "steps_y": steps[1],
        "backbone": "sage",
        "loss": "drop",
        "select": "published",
        "scale": False,
        **_tuned(_TUNED[key][epsilon_x is not None, epsilon_y is not None]),
    }


def _pgc(dataset: str, epsilon_x: float | None) -> dict[str, Any]:
    key = next((key for key in _PGC_TUNED if dataset.startswith(key)), _CORA)
    return {
        "epsilon_x": epsilon_x,
        "epsilon_y": None,
        "mechanism": "pgc",
        "per_feature": True,
        "steps_x": 0,
        "steps_y": 0,
        "backbone": "gcn",
        "activation": "relu",
        "loss": "cross-entropy",
        "select": "last",
        "patience": 20,
        "scale": False,
        **_tuned(_PGC_TUNED[key]),
    }


def _tuned(row: _Row) -> dict[str, float]:
    return dict(zip(("learning_rate", "weight_decay", "dropout"), row, strict=True))


def _nearest(grid: tuple[float, ...], epsilon: float | None) -> int:
    """Place of the nearest budget, in ratio; None, in the clear, comes after the last."""
    if epsilon is None:
        return len(grid)
    return min(range(len(grid)), key=lambda i: abs(math.log(grid[i] / epsilon)))
