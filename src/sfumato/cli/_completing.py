"""What a shell offers behind a Tab: runs below this folder, and columns of the tables that the line has named already."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer  # noqa: TC002 (Typer reads the annotations)

_DEEP = 3  # how many folders below the one that is typed: runs stand in runs/first, and a home folder is large


def complete_run(incomplete: str) -> Iterator[str]:
    """Yield the folders of finished runs whose names begin like this."""
    typed = Path(incomplete)
    start = typed if incomplete.endswith("/") else typed.parent
    for depth in range(1, _DEEP + 1):
        for found in start.glob("*/" * depth + "release/manifest.json"):
            run = str(found.parent.parent)
            if run.startswith(incomplete.removeprefix("./")):
                yield run


def complete_column(ctx: typer.Context, incomplete: str) -> Iterator[str]:
    """Yield the columns of the tables on the command line whose names begin like this."""
    from sfumato.errors import SfumatoError
    from sfumato.tables._tables import FileTable

    names: dict[str, None] = {}
    for table in ("nodes", "edges"):
        try:
            names |= dict.fromkeys(FileTable(ctx.params[table]).column_names if ctx.params.get(table) else ())
        except (SfumatoError, OSError, ImportError):  # the command itself says what is wrong
            continue
    yield from (name for name in names if name.startswith(incomplete))


COMPLETE: dict[str, Any] = {
    "run": complete_run,
    **dict.fromkeys(("label", "drop", "text", "by", "edge_weight", "edge_type"), complete_column),
}
"""What lists the values of an option, by its name in a table of options."""
