"""Options of engines: refused before anything is read, the same for every command."""

import pytest

from sfumato import _optional

TRAIN = ("train", "gap", "--dataset", "campus", "--unit", "edge", "--epsilon", "1", "--delta", "1e-6")


@pytest.mark.parametrize(
    ("options", "fragment"),
    [
        (("--engine", "spark"), "local, ray"),
        (("--ray-address", "head:6379"), "with --engine ray only"),
    ],
)
@pytest.mark.parametrize("command", [TRAIN, ("tune", *TRAIN[1:]), ("experiment", "run", "gap-table-4-2")])
def test_wrong_engines_are_refused(sfumato, tmp_path, command, options, fragment):
    where = ("--results" if command[0] == "experiment" else "--out", tmp_path / "out")
    result = sfumato(*command, *options, *where)
    assert result.code == 2
    assert fragment in result.err
    assert not (tmp_path / "out").exists()


def test_absent_ray_is_named_with_its_extra(sfumato, tmp_path, monkeypatch):
    found = _optional._found
    monkeypatch.setattr(_optional, "_found", lambda package: package != "ray" and found(package))
    result = sfumato(*TRAIN, "--engine", "ray", "--out", tmp_path / "out")
    assert result.code == 2
    assert "pip install 'sfumato[distributed]'" in result.err
    assert not (tmp_path / "out").exists()
