"""Rows that are for single nodes lie beside a release, in a file that nobody but its owner may read."""

import os
import stat

import numpy as np

from sfumato.record._release_folder import OWN_ROWS, write_release
from sfumato.record.ledger import Ledger


def test_own_rows_are_for_their_owner_alone(tmp_path):
    before = os.umask(0)
    try:
        write_release(
            tmp_path / "run", None, Ledger({}, ()), {"method": "gap"}, {"w": np.zeros(2)}, {}, own={"r": np.ones(3)}
        )
    finally:
        os.umask(before)
    path = tmp_path / "run" / OWN_ROWS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert b"r" in path.read_bytes()
    assert OWN_ROWS not in {
        one.relative_to(tmp_path / "run").as_posix() for one in (tmp_path / "run/release").rglob("*")
    }
