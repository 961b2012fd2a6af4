"""What commands that talk to a server of a collection print meanwhile, and how to go on after a stop."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sfumato.errors import CollectionError

if TYPE_CHECKING:
    from collections.abc import Iterator


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextmanager
def going_on(how: str) -> Iterator[None]:
    """Say how to go on after a stop, or a failure that passes. What a server refuses, it refuses again."""
    from sfumato.collect._connection import RefusedError

    try:
        yield
    except RefusedError:
        raise
    except (KeyboardInterrupt, OSError, CollectionError) as error:
        error.add_note(how)
        raise
