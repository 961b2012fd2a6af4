"""The options that say where the parts of a large computation run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from sfumato._optional import check_installed
from sfumato._validate import check_choice, fail

ENGINE = typer.Option(
    "local",
    "--engine",
    help="Where large parts are computed: local (in this process), or ray (on the workers of a Ray cluster). The results have "
    "the same bits.",
)
RAY_ADDRESS = typer.Option(
    None,
    "--ray-address",
    help="With --engine ray: the address of a running cluster, HOST:PORT or auto. All its machines see private data (default: "
    "start a cluster on this machine, for this command alone).",
)


@contextmanager
def running(engine: str, ray_address: str | None) -> Iterator[None]:
    """Let the engine that the options name compute the block, and stop it afterward.

    Args:
        engine: local or ray.
        ray_address: the address of a running cluster; None starts one.

    Raises:
        InputError: there is no such engine or cluster, or an address comes with the local engine.
        MissingDependencyError: Ray is asked for and is not installed.
    """
    check_choice(("local", "ray"), engine=engine)
    if engine == "local":
        if ray_address is not None:
            raise fail("ray_address", ray_address, "with --engine ray only", "Drop it, or choose that engine.")
        yield
        return
    check_installed("ray")
    from sfumato.bounded.engine import using
    from sfumato.distributed.ray import RayEngine

    with RayEngine(ray_address) as chosen, using(chosen):
        yield
