"""What small specifications begin with, and those of the package, which are read once. It needs no pytest."""

from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest.mock import patch

from sfumato.experiments._spec import SPECS, Spec


@contextmanager
def read_once():
    """Read each specification of the package once, however often it is asked for; others change between two readings."""
    read = Spec.read
    kept = cache(read)
    with patch.object(Spec, "read", staticmethod(lambda path: (kept if Path(path).parent == SPECS else read)(path))):
        yield


def head(name, *, dataset="campus", split="50/25/25", seeds=1, axis="epsilon"):
    """The text up to the table of the quick profile, of which more may follow."""
    return f"""
name = "{name}"
title = "A small table"
source = "a test"
comments = []
dataset = "{dataset}"
split = "{split}"
seeds = {seeds}
axis = "{axis}"

[quick]
seeds = 1
minutes = 0.1
"""
