"""What `sfumato pate analyze` and `sfumato pate run` share: how options say which noise, and how errors name options."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato._validate import check_choice
from sfumato.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.pate._aggregation import Mechanism

NOISE = {
    "lnmax": ("--scale",),
    "gnmax": ("--sigma2",),
    "confident-gnmax": ("--threshold", "--sigma1", "--sigma2"),
}

_SAME = ("accounting", "controls", "dataset", "delta", "device", "epsilon", "mechanism", "out", "queries", "quick", "scale",
         "seed", "student", "teacher", "threshold")  # fmt: skip
OPTIONS = {
    **{name: f"--{name}" for name in _SAME},
    "max_answers": "--max-answers",
    "sign_key": "--sign-key",
    "num_teachers": "--teachers",
    "num_queries": "--queries",
    "name": "--dataset",
    "dataset_ledger": "--ledger",
    "threshold_stddev": "--sigma1",
    "noise_stddev": "--sigma2",
    "gnss": "--release",
    "order": "ORDER of --release",
    "beta": "BETA of --release",
    "noise": "NOISE of --release",
}
"""For each name of an argument in errors of the library, the option that it is on the command line."""


@contextmanager
def named_by_options() -> Iterator[None]:
    """Name options, not arguments of the library, where an error says what it expected."""
    try:
        yield
    except InputError as error:
        named = re.sub(r"^Expected (\w+)(?= )", lambda found: f"Expected {OPTIONS.get(found[1], found[1])}", str(error))
        renamed = type(error)(named)
        renamed.__notes__ = getattr(error, "__notes__", [])
        raise renamed from error


def mechanism_of(name: str, given: dict[str, float | None]) -> Mechanism:
    """Return the mechanism of a ``name``, with the noise in ``given``: a number in votes, or None, for each option."""
    from sfumato.pate._plan import MECHANISMS

    check_choice(tuple(NOISE), mechanism=name)
    if name == "gnmax" and given["--sigma2"] is None:  # one noise only: either name will do
        given = {**given, "--sigma2": given["--sigma1"], "--sigma1": None}
    needed = NOISE[name]
    for option, value in given.items():
        if (value is None) == (option in needed):
            raise InputError(
                f"Expected {' '.join(needed)} with --mechanism {name}, and no other noise; got "
                f"{' '.join(key for key, held in given.items() if held is not None) or 'none'}. Noise is in votes."
            )
    values: list[Any] = [given[option] for option in needed]
    made: Mechanism = MECHANISMS[name](*values)
    return made


def numbers_of(release: str | None, as_published: bool) -> tuple[float, float, float]:
    """Return order, beta and noise of the option ``--release``; zeros without it.

    >>> numbers_of("8,0.025,4", as_published=False)
    (8.0, 0.025, 4.0)
    """
    if release is None:
        return 0.0, 0.0, 0.0
    if as_published:
        raise InputError("Expected --release without --as-published, got both. The papers' release is not private.")
    try:
        order, beta, noise = map(float, release.split(","))
    except ValueError as error:
        raise InputError(
            f"Expected --release to be three numbers ORDER,BETA,NOISE, got {release!r}. An example is 8,0.025,4."
        ) from error
    return order, beta, noise
