"""What it takes to close, export and estimate a collection of many reports: time, and the most memory of the process.

Run: python benchmarks/collect_close.py --reports 1000000 [--store URL]

Reports are of eight features and a label, in an SQLite file in the temporary folder, or in an empty database by its URL. They are
written into the tables of a store, without their senders, since closing reads messages alone. Each step is a process of its own,
as on the command line; the memory is the largest resident set that the system saw.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from collect_load import questions, report

from sfumato.collect._database import REPORTS
from sfumato.collect._keys import ServerKey
from sfumato.collect._store import Store

_BLOCK = 20_000


def filled(where: str, reports: int) -> None:
    """Write so many reports into a new store, in an order that is not that of the user ids."""
    schema = questions(ServerKey.new())
    store = Store.create(where, schema)
    head, _, tail = report(schema, "u" * 16).partition(b"u" * 16)
    for start in range(0, reports, _BLOCK):
        numbers = range(start, min(start + _BLOCK, reports))
        ids = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in numbers]
        with store._database.writing() as connection:
            rows = [{"user": one.encode(), "message": head + one.encode() + tail} for one in ids]
            store._database.insert(
                connection, REPORTS, [{**one, "proof": bytes(64), "received_at": 0.0} for one in rows]
            )
    store.dispose()


def measured(*arguments: str) -> tuple[float, float, float]:
    """Seconds, seconds of the processor, and MiB of one command in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "sfumato", "collect", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"sfumato collect {arguments[0]} failed.")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reports", type=int, default=1_000_000)
    parser.add_argument("--store")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where = asked.store or str(Path(folder) / "reports.sqlite")
        filled(where, asked.reports)
        print(f"{asked.reports:,} reports")
        for name, *arguments in (
            ("close", "--store", where, "--yes"),
            ("export", "--store", where, "--out", str(Path(folder) / "closed")),
            ("estimate", where),
        ):
            seconds, processor, memory = measured(name, *arguments)
            print(f"{name:10}{seconds:8.1f} s {processor:8.1f} s of processor {memory:6.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
