"""The command line of the verifier: ``python -m sfumato.verify``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ._folder import VerifyInputError
from ._ledger import describe_ledger, verify_ledger
from ._survey import describe_survey, verify_survey
from ._verifier import describe, verify


def main(argv: list[str] | None = None) -> int:
    """Print a verdict; return 0 if the run or ledger is valid, 1 if it is not, 2 if there is nothing to check."""
    parser = argparse.ArgumentParser(prog=f"python -m {__package__}", description="Check a released run, or a ledger.")
    parser.add_argument(
        "run", type=Path, metavar="DIR", help="run folder, the release folder inside it, or a ledger file"
    )
    parser.add_argument("--public-key", type=Path, metavar="FILE", help="Ed25519 key that must have signed the run")
    parser.add_argument("--runs", type=Path, metavar="DIR", action="append", default=[], help="more runs of a ledger")
    parser.add_argument(
        "--collection", type=Path, metavar="FILE", help="closed collection, of which DIR is a file of estimates"
    )
    options = parser.parse_args(argv)
    try:
        if options.collection is not None:
            survey = verify_survey(options.run, options.collection)
            print(describe_survey(options.run, survey))
            return 0 if survey.valid else 1
        if options.run.is_file():
            found = verify_ledger(options.run, options.runs, options.public_key)
            print(describe_ledger(options.run, found))
            return 0 if found.valid else 1
        result = verify(options.run, options.public_key)
    except VerifyInputError as error:
        print(error, file=sys.stderr)
        return 2
    print(describe(options.run, result))
    return 0 if result.valid else 1
