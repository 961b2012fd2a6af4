"""Methods split noise by constants: forged runs that state another split, or an older one of their method, do not pass."""

import shutil
from pathlib import Path

import pytest
from contracts_forgery import event, problems, rewrite
from safetensors.numpy import load_file

from sfumato.record._release_folder import _tensor_file

KEPT = Path(__file__).parents[1] / "golden" / "format-3"
RELEASES = {
    "linear": ("center", "head", "scale"),
    "piloted": ("center", "head", "aggregate/1", "test", "aggregate/2", "last"),
}
MADE = [(method, index) for method, names in RELEASES.items() for index in range(len(names))]


@pytest.fixture
def kept_copy(tmp_path):
    return lambda kept: shutil.copytree(KEPT / kept, tmp_path / "run")


@pytest.mark.parametrize("factor", [1e3, 1 + 1e-6, 0.5])
@pytest.mark.parametrize(("method", "index"), MADE)
def test_another_split_than_that_of_the_method_is_named(forge, method, index, factor):
    def change(certificate, spec):
        certificate["releases"][index]["event"]["noise_multiplier"] *= factor

    others = RELEASES[method].index("head") == index
    assert f"releases[{0 if others else index}].event.noise_multiplier: expected " in forge(method, change)


@pytest.mark.parametrize("kept", ["linear", "piloted"])
@pytest.mark.parametrize("index", [0, 1])
def test_another_split_of_an_early_run_is_named(kept_copy, kept, index):
    run = kept_copy(kept)
    rewrite(run, event(index, noise_multiplier=1e3))
    assert "event.noise_multiplier: expected " in problems(run)


@pytest.mark.parametrize("kept", ["tuned-linear", "tuned-piloted"])
def test_another_split_of_a_candidate_is_named(kept_copy, kept):
    run = kept_copy(kept)
    rewrite(run, lambda c, s: c["releases"][0]["event"]["candidates"][1][0].update(noise_multiplier=1e3))
    assert "candidates[1]: releases[0].event.noise_multiplier: expected " in problems(run)


LATER = {"linear": ("scale",), "piloted": ("last.weight", "last.bias")}


@pytest.mark.parametrize("method", LATER)
def test_a_run_of_today_is_no_early_one_without_its_last_release(copy_of, method):
    """The split of early runs was another one, so that what is left of a run does not fit it."""
    run = copy_of(method)
    path = run / "release" / "model.safetensors"
    kept = {name: array for name, array in load_file(path).items() if name not in LATER[method]}
    path.write_bytes(b"".join(_tensor_file(kept)))
    rewrite(run, lambda certificate, spec: certificate["releases"].pop())
    assert "event.noise_multiplier: expected " in problems(run)
