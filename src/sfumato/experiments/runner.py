"""Run the cells of an experiment so that nothing is lost or doubled: one line a finished cell, on disk before the next.

One process writes: it holds a lock on the results folder from beginning to end, and appends a line as each cell
finishes. Whatever stops it, a later run goes on from the lines that are there. Workers only compute.

Accuracy reads true labels: where these are private, results are evaluation by the trusted curator, outside every
guarantee, and must not leave. Nothing of them is shown while cells run.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from sfumato import __version__
from sfumato._validate import check_int, fail
from sfumato.errors import InputError, SfumatoError, UnsupportedUnitError
from sfumato.experiments.pate import METHOD as PATE
from sfumato.experiments.pate import run_pate
from sfumato.experiments.results import FILE, Row, parse, split_torn
from sfumato.experiments.spec import Cell, Spec, constructor
from sfumato.pate.images import IMAGE_DATASETS
from sfumato.privacy.budget import Budget
from sfumato.privacy.ledger import append_line, canonical_json, sync_folder
from sfumato.privacy.units import unit_named

if TYPE_CHECKING:
    from sfumato.graph.graph import Graph

_STAYED = "Finished cells are kept: make room or correct the path, and run the same command again."
Report = Callable[[Cell, Row, int, int], None]


@dataclass(frozen=True)
class Outcome:
    """How a run ended: cells that were finished before, finished now, and skipped with their reasons."""

    path: Path
    total: int
    before: int
    done: int
    reasons: tuple[str, ...]
    interrupted: bool = False


def run(
    spec: Spec,
    results: str | Path,
    *,
    profile: str = "full",
    data_dir: str | Path | None = None,
    jobs: int = 1,
    report: Report | None = None,
) -> Outcome:
    """Run what is not finished yet; skipped cells are tried again.

    Args:
        spec: what to run.
        results: folder of all experiments; lines go to ``<results>/<spec.name>/results.jsonl``.
        profile: full or quick.
        data_dir: folder of the named data sets.
        jobs: processes; with more than one each uses a single thread.
        report: called after each cell with (cell, row, finished now, to run now), unless none can be run.

    Raises:
        InputError: another process runs in this folder, or the folder or disk refuses a line.
        DataError: the results file or the data set is damaged.
    """
    check_int(low=1, jobs=jobs)
    cells = spec.cells(profile)
    folder = Path(results) / spec.name
    reason = _absent(spec.dataset, data_dir)
    work = partial(_run, data_dir=None if data_dir is None else str(data_dir), results=str(results))
    with _locked(folder):
        path = folder / FILE
        with _writing(path):
            finished = _open(path, {cell.id for cell in cells})
        todo = [cell for cell in cells if cell.id not in finished]
        fixed = {"spec_hash": spec.digest, "profile": profile}
        roles = {one.label: one.role for one in spec.runs}
        reasons: dict[str, None] = {}
        done, interrupted = 0, False
        outcomes = _skipped(todo, reason) if reason else _results(todo, work, jobs)
        try:
            for number, (cell, result) in enumerate(outcomes, 1):
                row = {"id": cell.id, **cell.to_dict(), **fixed, "role": roles[cell.label], **result}
                with _writing(path):
                    append_line(path, canonical_json(row), new=not path.exists())
                done += row["status"] == "done"
                reasons.update({row["reason"]: None} if row["reason"] else {})
                if report is not None and reason is None:
                    report(cell, row, number, len(todo))
        except KeyboardInterrupt:
            interrupted = True
        return Outcome(path, len(cells), len(cells) - len(todo), done, tuple(reasons), interrupted)


def _run(cell: Cell, data_dir: str | None, results: str) -> Row:
    """Run one cell of any method in this process."""
    if cell.method != PATE:
        return run_cell(cell, data_dir)
    assert data_dir is not None
    _reset_peak()
    with _writing(Path(results)):
        found = run_pate(cell, data_dir, results)
    return {**_result("done"), **found, "peak_mb": _peak_mb()}


def run_cell(cell: Cell, data_dir: str | None) -> Row:
    """Fit and score one cell in this process; what its line holds beyond the cell itself."""
    start = time.perf_counter()
    from sfumato.catalog import method_named
    from sfumato.evaluation import check_scorable, score

    _reset_peak()
    graph = _graph(cell.dataset, data_dir, cell.split)
    if cell.split != "public":
        from sfumato.graph.splits import parse_fractions

        graph = graph.with_split(parse_fractions(cell.split), seed=cell.seed)
    check_scorable(graph)
    budgets = {"epsilon": cell.epsilon} if cell.unit == "link" else {}
    method = method_named(cell.method, **constructor(cell.settings), **budgets)
    local = cell.unit in ("local", "link")
    unit = method.unit if local else unit_named(cell.unit, graph.directed, cell.max_degree)
    try:
        plan = method.calibrate(_budget(cell), unit, graph.public_facts(unit))
    except UnsupportedUnitError as error:
        return _skip(str(error))
    if cell.epsilon is None and plan.epsilon and not local:
        raise InputError(f"Expected epsilons for {cell.label!r}, which spends a budget here, got none. Add them.")
    began = time.perf_counter()
    fitted = plan.fit(graph, seed=cell.seed)
    seconds = time.perf_counter() - began
    accuracy, macro_f1 = score(fitted, graph)
    return {
        **_result("done"),
        "seconds": {"train": seconds, "total": time.perf_counter() - start},
        "peak_mb": _peak_mb(),
        "metrics": {"accuracy": accuracy, "macro_f1": macro_f1},
        "certificate": None if plan.epsilon is None else dict(fitted.certificate.values),
    }


def _budget(cell: Cell) -> Budget | None:
    """The cell's budget; a method that spends nothing under its unit gets one that it leaves untouched, a local one none."""
    if cell.unit in ("none", "local", "link"):
        return None
    return Budget(1.0 if cell.epsilon is None else cell.epsilon, 1e-9 if cell.delta is None else cell.delta)


def _result(status: str) -> Row:
    """The fields that every line has, before any work was done."""
    versions = {"python": platform.python_version(), "torch": version("torch"), "numpy": version("numpy")}
    return {
        "status": status,
        "reason": None,
        "version": __version__,
        "versions": versions,
        "device": "cpu",
        "seconds": {"train": 0.0, "total": 0.0},
        "peak_mb": 0.0,
        "metrics": {"accuracy": None, "macro_f1": None},
        "certificate": None,
    }


def _skip(reason: str) -> Row:
    return {**_result("skipped"), "reason": reason}


def _skipped(cells: Sequence[Cell], reason: str) -> Iterator[tuple[Cell, Row]]:
    for cell in cells:
        yield cell, _skip(reason)


def _results(cells: Sequence[Cell], work: Callable[[Cell], Row], jobs: int) -> Iterator[tuple[Cell, Row]]:
    """Cells with their results, as they finish."""
    if jobs == 1:
        for cell in cells:
            yield cell, _named(cell, partial(work, cell))
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, max(len(cells), 1)), context, _start_worker) as pool:
        pending: dict[Future[Row], Cell] = {}
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


def _named(cell: Cell, result: Callable[[], Row]) -> Row:
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


@lru_cache(maxsize=1)
def _graph(dataset: str, data_dir: str | None, split: str) -> Graph:
    from sfumato.graph.datasets import load_dataset

    return load_dataset(dataset, data_dir, split="public" if split == "public" else None)


def _absent(dataset: str, data_dir: str | Path | None) -> str | None:
    """Why a data set cannot be run, if its files are not there."""
    from sfumato.graph.datasets import list_datasets

    if dataset in IMAGE_DATASETS and data_dir is not None and (Path(data_dir) / dataset).is_dir():
        return None
    if any(row.name == dataset and row.present for row in list_datasets(data_dir)):
        return None
    if data_dir is None:
        return f"The files of {dataset} are not there, and no --data-dir was given: name the folder that holds them."
    return (
        f"The files of {dataset} are not in the data folder {str(data_dir)!r}: `sfumato datasets --data-dir "
        f"{shlex.quote(str(data_dir))}` lists what is."
    )


def _open(path: Path, wanted: set[str]) -> set[str]:
    """Ids of finished cells; a torn last line and the lines of skipped cells that are tried again are removed."""
    content = path.read_bytes() if path.exists() else b""
    whole, torn = split_torn(content)
    rows = parse(whole, path)
    kept = [row for row in rows if row["status"] == "done" or row["id"] not in wanted]
    if torn or len(kept) < len(rows):
        partial = path.with_name(path.name + ".partial")
        with partial.open("wb") as file:
            file.write("".join(canonical_json(row) + "\n" for row in kept).encode())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        sync_folder(path.parent)
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


def _reset_peak() -> None:
    """Start the peak anew, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    """Largest resident memory of this process since the reset, or since its start, in MiB."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**10
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
