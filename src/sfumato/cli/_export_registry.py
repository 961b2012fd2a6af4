"""`sfumato export registry`: what a run tells the public registry of deployments."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import typer

from sfumato.cli._completing import complete_run
from sfumato.cli._verified import verified
from sfumato.errors import InputError
from sfumato.evaluation._kept import write_page

RUN = typer.Argument(..., help="The folder of a run, or a copy of its release/.", autocompletion=complete_run)


def registry(
    run: Path = RUN,
    out: Path | None = typer.Option(
        None, "--out", help="The YAML file to write; it must not exist yet (default: print on standard output)."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print one JSON object on standard output: the record, its tier, and what is missing."
    ),
) -> None:
    """Write the fields of the public registry of differential privacy deployments.

    They come from the certificate and from its deployment record (sfumato train --deployment). A comment in the place of each
    missing field says what to write. A run that sfumato verify refuses is refused. Nothing is spent.
    """
    from sfumato.report import read_run, registered

    if out is not None and out.exists():
        raise InputError(f"Expected out to be a new file, got {str(out)!r}, which exists. Name another.")
    read = read_run(run)
    verified(run)
    found = registered(read)
    if out is not None:
        write_page(out, found.to_yaml())
        print(f"Wrote {out}.", file=sys.stderr)
    if as_json:
        typer.echo(json.dumps({"record": found.to_dict(), "tier": found.tier, "missing": found.missing}))
    elif out is None:
        typer.echo(found.to_yaml(), nl=False)
    print(f"Tier {found.tier}. Missing: {', '.join(found.missing) or 'nothing'}.", file=sys.stderr)
