"""How commands show tables and progress, and write pages. Text is shown as it is, and a file is written whole or not at all."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import InputError
from sfumato.evaluation._kept import check_outside

_SCORED = re.compile(rb",-?\d+\.\d{6}\r?\n\Z")

if TYPE_CHECKING:
    from rich.console import Console

    from sfumato.method._plan import Fitted
    from sfumato.method.contract import Progress
    from sfumato.privacy.promises import Caveat


def plain_console(*, stderr: bool = False) -> Console:
    """Return a console that shows labels, titles and paths as they are, and takes nothing in them for markup."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, emoji=False)


def tell(caveats: Iterable[Caveat]) -> None:
    """Print what is implausible about a plan, on standard error."""
    for code, text in caveats:
        print(f"Warning: {text} [{code}]", file=sys.stderr)


@contextmanager
def stage_bars(quiet: bool) -> Iterator[Progress | None]:
    """Show the progress of a fit on standard error: a bar for each stage, or a line for each if nobody watches.

    The names of stages and the numbers of steps hold no private value.

    >>> with stage_bars(quiet=True) as report:
    ...     print(report)
    None
    """
    if quiet or not sys.stderr.isatty():
        yield None if quiet else _log_stages()
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:36}", markup=False), BarColumn(16), TextColumn("{task.percentage:3.0f} %"))
    with Progress(*columns, TimeRemainingColumn(), console=plain_console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield report


_OFTEN = 20.0
"""After how many seconds a line says again how far a stage is."""


def _log_stages(now: Callable[[], float] = time.monotonic) -> Progress:
    """Print the name of each stage, and of a long one from time to time how much is left."""
    began: dict[str, tuple[float, int]] = {}
    told: dict[str, float] = {}

    def report(stage: str, done: int, total: int) -> None:
        at = now()
        if stage not in began:
            began[stage], told[stage] = (at, done), at
            print(f"{stage} ...", file=sys.stderr, flush=True)
        start, before = began[stage]
        if before < done < total and at - told[stage] >= _OFTEN:
            told[stage] = at
            left = (at - start) / (done - before) * (total - done)
            print(f"{stage}: {100 * done // total} %, about {left:.0f} s left", file=sys.stderr, flush=True)

    return report


def readers(fitted: Fitted) -> str:
    """Say who may see a file of predictions of a run, as its certificate does, and that known labels are true ones."""
    unit = fitted.plan.unit
    if not unit.private:
        return "This run has no privacy: the file must stay."
    if fitted.plan.method.who_may_see(unit)["the node itself"]:
        return "Each line may be shown to its own node only: it reads that node's features. The file must not be published."
    known = " Its known_label holds true labels, which are public under this unit." if "labels" in unit.public else ""
    return f"Anyone may see the file.{known}"


def free_file(out: Path, force: bool) -> Path:
    """Return the path of a file that may be written."""
    check_outside(out)
    if out.exists() and not (force and _written_here(out)):
        raise InputError(
            f"Expected out to be a new file, got {str(out)!r}, which exists. Read it, name another file with --out, or replace "
            "it with --force, which replaces only what this command wrote."
        )
    return out


def _written_here(path: Path) -> bool:
    """Whether the header is one of predictions or rows, or every line one of scores."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        header = file.readline().rstrip()
        if header.startswith((b"node,predicted,", b"node,part,value,")):
            return True
        if header == b",".join([b"node", *(b"e%d" % column for column in range(header.count(b",")))]):
            return b"," in header
        return header.endswith(b",score") and all(_SCORED.search(line) for line in file)
