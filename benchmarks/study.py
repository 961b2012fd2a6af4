"""What every study shares: its options, fits that are kept in a file, progress, means with intervals, tables and timing.

A study is a file with a text that says what it measures, one measured function, and a call of what is here. It prints Markdown
tables, which the pages of ``docs/results`` hold beside what was found. Fits that ``--log`` holds are not repeated, so a study
that was stopped goes on where it was, and ``--only-print`` shows what is there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from sfumato.graph import Graph

Call = Callable[[], object]
TAKEN = ("seconds", "of processors", "peak MiB", "disk MiB")


def options(text: str | None, *, log: str | None = None, **defaults: Any) -> argparse.Namespace:
    """Read the options of a study: a name for each default, whose type is that of the default or of its entries.

    False makes a switch, a sequence takes several words, a mapping takes some of its keys (all of them by default), a path
    without a default is an argument of its own. ``log`` names the file of finished fits.
    """
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        word = f"--{name.replace('_', '-')}"
        if default is Path:
            parser.add_argument(name, type=Path)
        elif default is False:
            parser.add_argument(word, action="store_true")
        elif isinstance(default, (dict, set)):
            parser.add_argument(word, nargs="*", choices=list(default), default=list(default))
        elif isinstance(default, (tuple, list, range)):
            parser.add_argument(word, nargs="*", type=type(default[0]), default=list(default))
        else:
            parser.add_argument(word, type=str if default is None else type(default), default=default)
    parser.add_argument("--data-dir", default=os.environ.get("SFUMATO_DATA", "../shared/data"))
    if log is not None:
        parser.add_argument(
            "--log", type=Path, default=Path("runs") / log, help="finished fits, which are not repeated"
        )
        parser.add_argument("--only-print", action="store_true", help="measure nothing")
    warnings.simplefilter("ignore")
    return parser.parse_args()


def kept(given: argparse.Namespace, cells: Iterable[Any], measure: Callable[..., Any]) -> dict[Any, Any]:
    """What ``measure(*cell)`` finds of each cell, in their order; what the log holds is not measured again."""
    done: dict[Any, Any] = {}
    if given.log.exists():
        done = {tuple(cell): found for *cell, found in map(json.loads, given.log.read_text("utf-8").splitlines())}
    cells = list(dict.fromkeys(cells))
    todo = [] if given.only_print else [cell for cell in cells if cell not in done]
    given.log.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    try:
        for number, cell in enumerate(todo, 1):
            done[cell] = measure(*cell)
            with given.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps([*cell, done[cell]]) + "\n")
            left = (time.perf_counter() - start) / number * (len(todo) - number) / 60
            print(
                f"{number} of {len(todo)}: {' '.join(map(str, cell))}; {left:.0f} min left", file=sys.stderr, flush=True
            )
    except KeyboardInterrupt:
        print(f"Stopped. Finished fits are in {given.log}; the same command goes on.", file=sys.stderr)
        sys.exit(130)
    return {cell: done[cell] for cell in cells if cell in done}


def grouped(found: dict[Any, Any], size: int) -> dict[Any, list[Any]]:
    """The results of cells whose first ``size`` parts are alike; what follows is a seed."""
    groups: dict[Any, list[Any]] = {}
    for cell, one in found.items():
        groups.setdefault(cell[:size], []).append(one)
    return groups


def told(values: Sequence[float], scale: float = 100, digits: int = 1, sign: str = "") -> str:
    """Write the mean of values with half its 95 % t-interval; a dash for none, or where one is missing.

    >>> told([0.5, 0.52]), told([0.5]), told([])
    ('51.0 ± 12.7', '50.0', '-')
    """
    from scipy.special import stdtrit

    found = scale * np.asarray(values, float)
    if not len(found) or np.isnan(found).any():
        return "-"
    text = f"{found.mean():{sign}.{digits}f}"
    if len(found) == 1:
        return text
    return f"{text} ± {stdtrit(len(found) - 1, 0.975) * found.std(ddof=1) / len(found) ** 0.5:.{digits}f}"


def table(columns: Sequence[object], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a Markdown table, each row as soon as it is made."""
    print(f"\n{title}\n" * bool(title))
    print(f"| {' | '.join(map(str, columns))} |\n{'|---' * len(columns)}|", flush=True)
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


@lru_cache(maxsize=8)
def graph_of(
    name: str, data_dir: str, seed: int | None = None, shares: tuple[float, ...] | None = None, **more: Any
) -> Graph:
    """A data set, split by a seed if one is given (75/10/15 without other shares)."""
    from sfumato.graph import load_dataset

    graph = load_dataset(name, data_dir, **more)
    return graph if seed is None else graph.with_split(*((shares and [shares]) or []), seed=seed)


def fitted(method: Any, budget: Any, unit: Any, graph: Graph, seed: int = 0, **settings: Any) -> Any:
    """A fit of a method, which may be given by its name and settings."""
    from sfumato.catalog import method_named

    method = method_named(method, **settings) if isinstance(method, str) else method
    return method.calibrate(budget, unit, graph.public_facts(unit)).fit(graph, seed=seed)


def accuracy(graph: Graph, predicted: Any) -> float:
    """The share of known test nodes that are predicted right, by a fit or by an array of classes."""
    found = predicted.predict(graph) if hasattr(predicted, "predict") else predicted
    asked = graph.test_mask & (graph.y >= 0)
    return float((found == graph.y)[asked].mean())


def seconds(call: Call, clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds of one call."""
    start = clock()
    call()
    return clock() - start


def alternating(calls: Sequence[Call], rounds: int, clock: Callable[[], float] = time.perf_counter) -> np.ndarray:
    """Seconds [rounds, calls] of calls that take turns, after one round that does not count."""
    return np.array([[seconds(call, clock) for call in calls] for _ in range(rounds + 1)])[1:]


def compared(calls: dict[str, Call], rounds: int, clock: Callable[[], float] = time.perf_counter) -> None:
    """Print the median seconds of each call, and how many times as long those after it take, round by round."""
    times = alternating(list(calls.values()), rounds, clock)
    for i, name in enumerate(calls):
        ratios = [f"{np.median(times[:, k] / times[:, i]):.2f} x {other}" for k, other in enumerate(calls) if k > i]
        print("; ".join([f"  {name}: {np.median(times[:, i]):.4g} s", *ratios]), flush=True)


def process(
    *words: object, threads: int = 2, limit: int = 0, on: Path = Path()
) -> tuple[str, float, float, float, float]:
    """Run a Python command; return what it printed, its seconds, those of processors, peak memory and disk ``on`` a path, in MiB.

    ``limit`` bounds the bytes that are private to it, if it is not 0.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    start, free, command = time.perf_counter(), [shutil.disk_usage(on).free], [sys.executable, *map(str, words)]
    with tempfile.TemporaryFile("w+") as printed, subprocess.Popen(command, stdout=printed, env=environment) as running:
        if limit:
            resource.prlimit(running.pid, resource.RLIMIT_DATA, (limit, limit))
        while not (ended := os.wait4(running.pid, os.WNOHANG))[0]:
            free.append(shutil.disk_usage(on).free)
            time.sleep(0.01)
        running.returncode = os.waitstatus_to_exitcode(ended[1])
        if running.returncode:
            sys.exit(f"{words} ended with exit code {running.returncode}")
        printed.seek(0)
        taken, used = time.perf_counter() - start, ended[2].ru_utime + ended[2].ru_stime
        return printed.read(), taken, used, ended[2].ru_maxrss / 1024, (free[0] - min(free)) / 2**20


def machine() -> dict[str, str]:
    """What ran."""
    import platform

    import torch

    from sfumato.loops.kernels import loops

    models = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": f"{models[0] if models else platform.processor()}, {os.cpu_count()} cores",
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, NumPy {np.__version__}, "
        f"torch {torch.__version__}, sums in {loops().NAME}",
        "load": f"{os.getloadavg()[0]:.1f}",
    }
