"""Run the cells of an experiment so that nothing is lost or doubled: one line a finished cell, on disk before the next.

One process writes: it holds a lock on the results folder from beginning to end, and appends a line as each cell
finishes. Whatever stops it, a later run goes on from the lines that are there. Workers only compute.

Accuracy reads true labels: where these are private, results are evaluation by the trusted curator, outside every
guarantee, and must not leave. Nothing of them is shown while cells run.
"""

from __future__ import annotations

import multiprocessing
import os
import shlex
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from sfumato._files import append_line, whole_file
from sfumato._threads import set_threads
from sfumato._validate import check_int, fail
from sfumato.bounded._engine import LOCAL, engine
from sfumato.errors import InputError, SfumatoError, SfumatoWarning
from sfumato.experiments._cells import Cell, Row, parts_of, run_cell, run_links, skipped_row, store_of
from sfumato.experiments._pate import DATASETS as PATE_DATASETS
from sfumato.experiments._pate import run_pate
from sfumato.experiments._pate_settings import METHOD as PATE
from sfumato.experiments._results import FILE, parse, split_torn
from sfumato.experiments._runs import LINKS
from sfumato.privacy.promises import Caveat
from sfumato.record.ledger import canonical_json

if TYPE_CHECKING:
    from sfumato.experiments._spec import Spec

_STAYED = "Finished cells are kept: make room or correct the path, and run the same command again."
Report = Callable[[Cell, Row, int, int], None]
_Result = tuple[Row, tuple[Caveat, ...]]


@dataclass(frozen=True)
class Outcome:
    """How a run of an experiment ended: cells in all, finished before and now, and reasons and caveats, each once."""

    path: Path
    total: int
    before: int
    done: int
    reasons: tuple[str, ...]
    interrupted: bool = False
    caveats: tuple[Caveat, ...] = ()


def run(
    spec: Spec,
    results: str | Path,
    *,
    profile: str = "full",
    data_dir: str | Path | None = None,
    jobs: int = 1,
    report: Report | None = None,
) -> Outcome:
    """Run what is not finished yet; skipped cells are tried again."""
    check_int(low=1, jobs=jobs)
    if jobs > 1 and engine() is not LOCAL:
        raise fail("jobs", jobs, "to be 1 with another engine than the local one", "Its workers run the cells.")
    cells = spec.cells(profile)
    folder = Path(results) / spec.name
    reason = why_absent(spec.dataset, data_dir)
    work = partial(_run, data_dir=None if data_dir is None else str(data_dir), results=str(results))
    with _locked(folder):
        path = folder / FILE
        with _writing(path):
            finished = _open(path, {cell.id for cell in cells})
        todo = [cell for cell in cells if cell.id not in finished]
        fixed = {"spec_hash": spec.digest, "profile": profile}
        roles = {one.label: one.role for one in spec.runs}
        reasons: dict[str, None] = {}
        caveats: dict[Caveat, None] = {}
        done, interrupted = 0, False
        if reason:
            outcomes = _skipped(todo, reason)
        else:
            outcomes = _results(todo, work, jobs) if engine() is LOCAL else _elsewhere(todo, work)
        try:
            for number, (cell, (result, told)) in enumerate(outcomes, 1):
                row = {"id": cell.id, **cell.to_dict(), **fixed, "role": roles[cell.label], **result}
                with _writing(path):
                    append_line(path, canonical_json(row), new=not path.exists())
                done += row["status"] == "done"
                reasons.update({row["reason"]: None} if row["reason"] else {})
                caveats.update(dict.fromkeys(told))
                if report is not None and reason is None:
                    report(cell, row, number, len(todo))
        except KeyboardInterrupt:
            interrupted = True
            done = _done(path, {cell.id for cell in todo})  # a line may be written and not yet counted
        return Outcome(path, len(cells), len(cells) - len(todo), done, tuple(reasons), interrupted, tuple(caveats))


def _run(cell: Cell, data_dir: str | None, results: str) -> _Result:
    """Run one cell in this process; return its row, and what was warned of meanwhile."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default", SfumatoWarning)
        row = _row(cell, data_dir, results)
    return row, tuple(map(_caveat, caught))


def _caveat(warning: warnings.WarningMessage) -> Caveat:
    """What a warning says. Only those of plans have a code; the others have the name of their class."""
    text = " ".join(str(warning.message).split())
    code, _, plain = text.partition(": ")
    return (
        Caveat(code, plain) if issubclass(warning.category, SfumatoWarning) else Caveat(warning.category.__name__, text)
    )


def _row(cell: Cell, data_dir: str | None, results: str) -> Row:
    if cell.method == LINKS:
        return run_links(cell, data_dir)
    if cell.method != PATE:
        return run_cell(cell, data_dir)
    assert data_dir is not None
    with _writing(Path(results)):
        return run_pate(cell, data_dir, results)


def _skipped(cells: Sequence[Cell], reason: str) -> Iterator[tuple[Cell, _Result]]:
    for cell in cells:
        yield cell, (skipped_row(reason), ())


def _results(cells: Sequence[Cell], work: Callable[[Cell], _Result], jobs: int) -> Iterator[tuple[Cell, _Result]]:
    """Cells with their results, as they finish."""
    if jobs == 1:
        import torch

        set_threads(torch.get_num_threads())  # or Numba's start in one cell would change them for the cells that follow
        for cell in cells:
            yield cell, _named(cell, partial(work, cell))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, max(len(cells), 1)), context, _start_worker) as pool:
        pending: dict[Future[_Result], Cell] = {}
        waiting = iter(cells)
        try:
            while True:
                for cell in waiting:
                    pending[pool.submit(work, cell)] = cell
                    if len(pending) >= jobs:
                        break
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    cell = pending.pop(future)
                    yield cell, _named(cell, future.result)
        except KeyboardInterrupt:
            print("Stopping: waiting for the cells that are running.", file=sys.stderr)
            for future, cell in pending.items():
                yield cell, _named(cell, future.result)
            raise


def _elsewhere(cells: Sequence[Cell], work: Callable[[Cell], _Result]) -> Iterator[tuple[Cell, _Result]]:
    """Cells with their results, as workers of another engine finish them, each in one thread."""
    for number, result in engine().run(_attempt, (work,), ((cell,) for cell in cells), threads=1):
        yield cells[number], _named(cells[number], partial(_given, result))


def _attempt(work: Callable[[Cell], _Result], cell: Cell) -> _Result | SfumatoError:
    """Run one cell, and return its result or its error."""
    try:
        return work(cell)
    except SfumatoError as error:
        return error


def _given(result: _Result | SfumatoError) -> _Result:
    if isinstance(result, SfumatoError):
        raise result
    return result


def _named(cell: Cell, result: Callable[[], _Result]) -> _Result:
    """A result, or the error with the cell that met it."""
    try:
        return result()
    except BrokenProcessPool as error:
        raise InputError(
            f"A worker died while it ran {cell}: perhaps memory ran out. Try fewer --jobs. {_STAYED}"
        ) from error
    except SfumatoError as error:
        raise type(error)(f"{cell}: {error}") from error


def _start_worker() -> None:
    """One thread, no Ctrl-C of its own, and no life after the runner's."""
    os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def why_absent(dataset: str, data_dir: str | Path | None) -> str | None:
    """Say why a data set cannot be run, if its files are not there."""
    from sfumato.datasets._listing import list_datasets, missing
    from sfumato.datasets._origins import hint

    store = store_of(dataset)
    if store is not None:
        return None if Path(store, "graph.json").is_file() else f"There is no stored graph in {store!r}."
    dataset, _ = parts_of(dataset)
    if dataset in PATE_DATASETS and data_dir is not None and (Path(data_dir) / dataset).is_dir():
        return None
    rows = [row for row in list_datasets(data_dir) if row.name == dataset]
    if any(row.present for row in rows):
        return None
    if data_dir is None:
        return f"The files of {dataset} are not there, and no --data-dir was given: name the folder that holds them."
    absent = missing(dataset, data_dir)
    listed = f"`sfumato datasets --data-dir {shlex.quote(str(data_dir))}` lists what is."
    told = f"{', '.join(absent)}. {hint(dataset, data_dir)}" if absent else listed
    return f"The files of {dataset} are not in the data folder {str(data_dir)!r}: {told}"


def _done(path: Path, ids: set[str]) -> int:
    """How many of these cells the file holds as finished."""
    whole, _ = split_torn(path.read_bytes() if path.exists() else b"")
    return sum(row["status"] == "done" and row["id"] in ids for row in parse(whole, path))


def _open(path: Path, wanted: set[str]) -> set[str]:
    """Ids of finished cells; a torn last line and the lines of skipped cells that are tried again are removed."""
    content = path.read_bytes() if path.exists() else b""
    whole, torn = split_torn(content)
    rows = parse(whole, path)
    kept = [row for row in rows if row["status"] == "done" or row["id"] not in wanted]
    if torn or len(kept) < len(rows):
        with whole_file(path) as file:
            file.write("".join(canonical_json(row) + "\n" for row in kept).encode())
    return {row["id"] for row in kept}


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"Cannot write results to {str(path)!r}: {error.strerror or error}. {_STAYED}") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = FileLock(folder / ".lock", timeout=0)
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except Timeout as error:
            expected = "to be a folder that no other run is writing to"
            raise fail("results", str(folder), expected, "Wait for it, or use another --results.") from error
    try:
        yield
    finally:
        lock.release()
