"""What it takes to close, export and estimate a collection of many reports: time, and the most memory of the process.

Run: python benchmarks/collect_close.py --reports 1000000 [--store URL]

Reports are of eight features and a label, in an SQLite file in the temporary folder, or in an empty database by its URL. They are
written into the tables of a store, without their senders, since closing reads messages alone. Each step is a process of its own,
as on the command line; the memory is the largest resident set that the system saw.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import study
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


def main() -> None:
    """Print a line for each step."""
    given = study.options(__doc__, reports=1_000_000, store=None)
    with tempfile.TemporaryDirectory() as folder:
        where = given.store or str(Path(folder) / "reports.sqlite")
        filled(where, given.reports)
        closed = str(Path(folder) / "closed")
        steps = (
            ("close", "--store", where, "--yes"),
            ("export", "--store", where, "--out", closed),
            ("estimate", where),
        )

        def row(*words: str) -> tuple[str, ...]:
            _, seconds, processor, memory, _ = study.process("-m", "sfumato", "collect", *words)
            return words[0], f"{seconds:.1f}", f"{processor:.1f}", f"{memory:.0f}"

        study.table((f"{given.reports:,} reports", "s", "s of processor", "MiB"), (row(*one) for one in steps))


if __name__ == "__main__":
    main()
