"""Starts the engine that computes the parts of a command, as ``--engine`` and ``--ray-address`` say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sfumato._optional import check_installed
from sfumato._validate import check_choice, fail


@contextmanager
def running(engine: str, ray_address: str | None) -> Iterator[None]:
    """Let the engine that the options name compute the block, and stop it afterward."""
    check_choice(("local", "ray"), engine=engine)
    if engine == "local":
        if ray_address is not None:
            raise fail("ray_address", ray_address, "with --engine ray only", "Drop it, or choose that engine.")
        yield
        return
    check_installed("ray")
    from sfumato.bounded._engine import using
    from sfumato.distributed._ray import RayEngine

    with RayEngine(ray_address) as chosen, using(chosen):
        yield
