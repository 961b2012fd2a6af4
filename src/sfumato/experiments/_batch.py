"""Run many specifications one after another, and say how long what is left of them takes."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.errors import DataError, SfumatoError
from sfumato.experiments._results import FILE, belonging, read
from sfumato.experiments._runner import Outcome, Report, run, why_absent

if TYPE_CHECKING:
    from sfumato.experiments._spec import Spec

STATES = ("done", "part", "skipped", "failed", "stopped")


@dataclass(frozen=True)
class Ended:
    """How one specification of several ended: its outcome, or the problem that ended it."""

    spec: str
    seconds: float
    outcome: Outcome | None = None
    problem: str | None = None

    @property
    def state(self) -> str:
        """One of :data:`STATES`: ``part`` if some of its cells were skipped, ``skipped`` if all of them were."""
        if self.outcome is None:
            return "failed"
        if self.outcome.interrupted:
            return "stopped"
        finished = self.outcome.before + self.outcome.done
        return "done" if finished == self.outcome.total else "part" if finished else "skipped"

    @property
    def why(self) -> str:
        return self.problem or " ".join(self.outcome.reasons if self.outcome else ())


@dataclass(frozen=True)
class Left:
    """What is left of a specification: cells that are not finished and whose data are there, and about how long they take.

    Of ``timed`` cells one that resembles them was timed.
    """

    spec: str
    cells: int
    timed: int
    seconds: float


def quickest_first(specs: Iterable[Spec], profile: str = "full") -> list[Spec]:
    """Sort specifications by about how long they take; those of PATE come last, since their fits take minutes.

    A specification states the minutes of its quick profile. A fit of the full profile takes as long as one of these.
    """

    def minutes(spec: Spec) -> float:
        return spec.quick.minutes * len(spec.cells(profile)) / len(spec.cells("quick"))

    return sorted(specs, key=lambda spec: (spec.images, minutes(spec)))


def run_all(
    specs: Sequence[Spec],
    results: str | Path,
    *,
    profile: str = "full",
    data_dir: str | Path | None = None,
    jobs: int = 1,
    progress: Callable[[Spec], AbstractContextManager[Report]] | None = None,
) -> Iterator[Ended]:
    """Run what is not finished of each specification, in order, and yield how it ended.

    A specification whose data are absent, or that fails, does not stop the others; Ctrl-C does.
    """
    for spec in specs:
        start = time.perf_counter()
        outcome, problem = None, None
        try:
            with progress(spec) if progress else nullcontext() as report:
                outcome = run(spec, results, profile=profile, data_dir=data_dir, jobs=jobs, report=report)
        except SfumatoError as error:
            problem = str(error)
        except Exception as error:  # whatever one of them meets, the others are run
            traceback.print_exc()
            problem = f"{type(error).__name__}: {error}"
        yield Ended(spec.name, time.perf_counter() - start, outcome, problem)
        if outcome is not None and outcome.interrupted:
            return


def what_is_left(
    specs: Sequence[Spec], results: str | Path, *, profile: str = "full", data_dir: str | Path | None = None
) -> tuple[Left, ...]:
    """Estimate the time of cells that are not finished from the seconds of those that are.

    A cell takes the mean time of finished cells of its run at its epsilon and varied value; without one, that of its run;
    without one, that of its specification. Cells whose data are absent are left out.
    """
    return tuple(_left(spec, Path(results), profile, why_absent(spec.dataset, data_dir)) for spec in specs)


def _left(spec: Spec, results: Path, profile: str, absent: str | None) -> Left:
    if absent:
        return Left(spec.name, 0, 0, 0.0)
    path = results / spec.name / FILE
    try:
        done = [row for row in belonging(read(path), spec) if row["status"] == "done"] if path.exists() else []
    except DataError:  # running the specification says what is damaged
        done = []
    finished, seconds = {row["id"] for row in done}, [row["seconds"]["total"] for row in done]
    like: dict[tuple[str, ...], list[float]] = {(): seconds} if seconds else {}
    for row, took in zip(done, seconds, strict=True):
        label, at = row["label"], f"{row['epsilon']} {row['at']!r}"
        like.setdefault((label,), []).append(took)
        like.setdefault((label, at), []).append(took)
    cells = [cell for cell in spec.cells(profile) if cell.id not in finished]
    times = []
    for cell in cells:
        keys = (cell.label, f"{cell.epsilon} {cell.at!r}"), (cell.label,), ()
        found = next((like[key] for key in keys if key in like), None)
        times += [sum(found) / len(found)] if found else []
    return Left(spec.name, len(cells), len(times), sum(times))
