"""A split says which node trains, validates and tests; it is drawn over public node ids."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np

from sfumato._validate import check_choice, check_int, check_real, fail

DEFAULT_FRACTIONS = (0.75, 0.10, 0.15)


def split_sizes(num_nodes: int, fractions: tuple[float, ...] = DEFAULT_FRACTIONS) -> tuple[int, int, int]:
    """Compute the numbers of train, val and test nodes, each running total rounded to the nearest whole."""
    if len(fractions) != 3:
        raise fail("fractions", fractions, "to be three numbers: train, val, test", "For example (0.75, 0.10, 0.15).")
    shares = [check_real(low=0, high=1, fractions=share) for share in fractions]
    if sum(shares) > 1 + 1e-9:
        raise fail("fractions", fractions, "to add up to at most 1", "For example (0.75, 0.10, 0.15).")
    ends = np.floor(np.cumsum(shares) * num_nodes + 0.5 + 1e-9).astype(int)
    train, val, test = np.diff(np.minimum(ends, num_nodes), prepend=0).tolist()
    return train, val, test


def parse_fractions(split: str) -> tuple[float, float, float]:
    """Read ``A/B/C`` as fractions of training, validation and test nodes.

    >>> parse_fractions("75/10/15")
    (0.75, 0.1, 0.15)
    """
    try:
        parts = [float(part) for part in split.split("/")]
    except ValueError:
        parts = []
    if len(parts) != 3 or min(parts) < 0 or not 0 < sum(parts) <= 100 + 1e-9 or parts[0] <= 0 or parts[2] <= 0:
        again = "/".join(re.findall(r"\d+(?:\.\d+)?", split))
        remedy = f"Write {again}." if again != split and again.count("/") == 2 else "A common choice is 75/10/15."
        raise fail("split", split, "to be A/B/C in percent, or public", remedy)
    if sum(parts) <= 1:
        percent = "/".join(f"{100 * part:g}" for part in parts)
        raise fail("split", split, "to be A/B/C in percent, and not shares", f"Write {percent}.")
    train, val, test = (part / 100 for part in parts)
    return train, val, test


def random_roles(
    num_nodes: int | np.ndarray, fractions: tuple[float, ...] = DEFAULT_FRACTIONS, seed: int = 0
) -> np.ndarray:
    """Draw roles over node ids alone: uint8 [num_nodes], 0 train, 1 val, 2 test, 3 none (when fractions leave a rest).

    Args:
        num_nodes: number of nodes; or bool [num_nodes], which nodes are to have a role. The others get 3.
        fractions: shares of training, validation and test nodes among them.
        seed: a public seed.

    Reads nothing else, so the roles are public under every privacy unit if ``num_nodes`` is. Which nodes have a label is public
    only where labels are.

    Raises:
        InputError: the number of nodes, the fractions or the seed do not fit.

    >>> np.bincount(random_roles(100, seed=1)).tolist()
    [75, 10, 15]
    """
    if isinstance(num_nodes, np.ndarray):
        roles = np.full(len(num_nodes), 3, dtype=np.uint8)
        roles[num_nodes] = random_roles(int(num_nodes.sum()), fractions, seed)
        return roles
    check_int(low=1, num_nodes=num_nodes)
    order = np.random.default_rng(check_int(low=0, seed=seed)).permutation(num_nodes)
    return _assign(order, split_sizes(num_nodes, fractions), num_nodes)


def stratified_roles(
    y: Any, fractions: tuple[float, ...] = DEFAULT_FRACTIONS, seed: int = 0, *, labels: str
) -> np.ndarray:
    """Draw roles class by class: uint8 [num_nodes]; nodes without a label (-1) get 3, none.

    Args:
        y: class numbers [num_nodes].
        fractions: shares of training, validation and test nodes in each class.
        seed: a public seed.
        labels: must be "public".

    Raises:
        InputError: ``y`` holds no class numbers, or ``labels`` is something else.

    The roles then depend on the labels: pass ``labels="public"`` to declare that these are public, as they are
    under edge-level privacy. Sizes are rounded within each class.

    >>> stratified_roles([0, 0, 1, 1, -1], (0.5, 0.0, 0.5), seed=0, labels="public").tolist()
    [0, 2, 0, 2, 3]
    """
    check_choice(("public",), "Where labels are private use random_roles.", labels=labels)
    y = np.asarray(y)
    if y.ndim != 1 or y.dtype.kind not in "iu" or not len(y):
        raise fail("y", y.dtype.name, "to be a 1-D array of class numbers", "Pass graph.y.")
    generator = np.random.default_rng(check_int(low=0, seed=seed))
    roles = np.full(len(y), 3, dtype=np.uint8)
    for label in np.unique(y[y >= 0]):
        members = generator.permutation(np.flatnonzero(y == label))
        roles[members] = _assign(np.arange(len(members)), split_sizes(len(members), fractions), len(members))
    return roles


def _assign(order: np.ndarray, sizes: tuple[int, int, int], num_nodes: int) -> np.ndarray:
    roles = np.empty(num_nodes, dtype=np.uint8)
    roles[order] = np.repeat(np.arange(4, dtype=np.uint8), (*sizes, num_nodes - sum(sizes)))
    return roles


def digest_of_roles(roles: np.ndarray) -> str:
    """Return what tells these roles from others, whichever array holds them."""
    return hashlib.blake2b(np.ascontiguousarray(roles, np.uint8).data, person=b"drawn roles").hexdigest()
