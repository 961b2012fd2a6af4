"""A release folder is written whole or not at all, and what is read back is what was written."""

import json
from contextlib import contextmanager

import numpy as np
import pytest

from sfumato.errors import DataError
from sfumato.record import _release_folder as release_folder
from sfumato.record._release_folder import OWN_ROWS, read_release, write_release
from sfumato.record._sealed import digest
from sfumato.record.ledger import Ledger

SPEC = {"method": "gap"}
ARRAYS = {"a": np.arange(3.0), "b": np.arange(4)}
OWN = {"own/1": np.arange(6).reshape(2, 3)}


def write(run, **more):
    return write_release(run, None, Ledger({}, ()), SPEC, ARRAYS, {"x": np.arange(2)}, **more)


def failing(monkeypatch, place):
    """Let the file of this number fail when it is half written; how many were begun."""
    begun, real = [], release_folder.whole_file

    @contextmanager
    def whole_file(path, *mode):
        begun.append(path)
        with real(path, *mode) as file:
            yield file
            if len(begun) == place:
                raise OSError(28, "No space left on device")

    monkeypatch.setattr(release_folder, "whole_file", whole_file)
    return begun


@pytest.mark.parametrize("own", [None, OWN])
def test_a_folder_that_fails_at_any_file_leaves_nothing(tmp_path, monkeypatch, own):
    for place in range(1, 20):
        run = tmp_path / str(place)
        with monkeypatch.context() as patch:
            begun = failing(patch, place)
            try:
                write(run, own=own, ids="a\nb")
            except OSError:
                assert not run.exists()
                continue
        assert (place, len(begun)) == ((7, 6) if own is None else (8, 7))
        return


def test_what_stood_in_the_folder_before_stays(tmp_path, monkeypatch):
    """The ledger of a run that began there is its own; a folder that was there is not removed."""
    (tmp_path / "run" / "release").mkdir(parents=True)
    ledger = Ledger({"method": "gap"}, (), tmp_path / "run" / "release" / "ledger.jsonl")
    before = ledger.path.read_bytes()
    failing(monkeypatch, 3)
    with pytest.raises(OSError, match="No space"):
        write_release(tmp_path / "run", None, ledger, SPEC, ARRAYS, {})
    assert [path.name for path in (tmp_path / "run").rglob("*") if path.is_file()] == ["ledger.jsonl"]
    assert ledger.path.read_bytes() == before


def test_arrays_and_own_rows_are_read_back(tmp_path):
    write(tmp_path / "run", own=OWN, ids="a\nb")
    found = read_release(tmp_path / "run", certified=False)
    assert {name: value.tolist() for name, value in found.weights.items()} == {"a": [0, 1, 2], "b": [0, 1, 2, 3]}
    assert {name: value.tolist() for name, value in found.released.items()} == {
        "x": [0, 1],
        "own/1": [[0, 1, 2], [3, 4, 5]],
    }
    assert found.ids == ("a", "b")
    assert (tmp_path / "run" / OWN_ROWS).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "run" / OWN_ROWS).parent.name not in json.loads(
        (tmp_path / "run/release/manifest.json").read_text()
    )["files"]


def test_two_runs_with_the_same_own_rows_tell_that_to_nobody(tmp_path):
    for name in ("one", "two"):
        write(tmp_path / name, own=OWN)
    specs = [json.loads((tmp_path / name / "release" / "spec.json").read_text()) for name in ("one", "two")]
    assert specs[0]["own"] != specs[1]["own"]


def test_own_rows_that_were_altered_are_refused_and_those_that_are_elsewhere_are_not_missed(tmp_path):
    write(tmp_path / "run", own=OWN)
    path = tmp_path / "run" / OWN_ROWS
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match="differs from spec"):
        read_release(tmp_path / "run", certified=False)
    path.unlink()
    assert set(read_release(tmp_path / "run", certified=False).released) == {"x"}


@pytest.mark.parametrize("name", ["spec.json", "model.safetensors", "releases.safetensors", "ledger.jsonl"])
def test_a_file_that_was_altered_or_lost_is_named_or_refused(tmp_path, name):
    write(tmp_path / "run")
    path = tmp_path / "run" / "release" / name
    content = path.read_bytes()
    path.write_bytes(content + b" ")
    with pytest.raises(DataError, match=f"File release/{name}"):
        read_release(tmp_path / "run", certified=False)
    path.unlink()
    with pytest.raises(DataError, match="finished run folder"):
        read_release(tmp_path / "run", certified=False)


def test_digests_tell_types_shapes_and_order_apart():
    one = np.arange(4)
    others = [
        (one.reshape(2, 2),),
        (one.astype(np.int32),),
        (one.view(np.uint64),),
        (one[:2], one[2:]),
        (one, one[:0]),
        (one[::-1],),
        (),
    ]
    found = {digest(one), *(digest(*other) for other in others)}
    assert len(found) == 1 + len(others)
    assert digest(np.arange(8)[::2]) == digest(np.arange(8)[::2].copy())
