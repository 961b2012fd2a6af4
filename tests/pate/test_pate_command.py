"""`sfumato pate analyze`: one object, one answer to "may this leave?", one line for what is wrong."""

import json

import numpy as np
import pytest

from sfumato.cli import invoke
from sfumato.pate._aggregation import ConfidentGNMax, GNMax, LNMax
from sfumato.pate._analysis import analyze

VOTES = np.random.default_rng(5).multinomial(40, [0.9, 0.06, 0.04], 100)
CONFIDENT = ("--mechanism", "confident-gnmax", "--threshold", "20", "--sigma1", "8", "--sigma2", "12")
CASES = [
    (("--mechanism", "lnmax", "--scale", "6"), LNMax(6.0)),
    (("--mechanism", "gnmax", "--sigma2", "12"), GNMax(12.0)),
    (("--mechanism", "gnmax", "--sigma1", "12"), GNMax(12.0)),
    (CONFIDENT, ConfidentGNMax(20.0, 8.0, 12.0)),
]


@pytest.fixture
def run(tmp_path, capsys):
    np.save(tmp_path / "votes.npy", VOTES.astype(float))

    def call(*options, votes=tmp_path / "votes.npy", delta="1e-5"):
        code = invoke(["pate", "analyze", "--votes", str(votes), "--delta", delta, *options])
        return code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(("options", "mechanism"), CASES)
@pytest.mark.parametrize("as_published", [True, False])
def test_object_says_what_the_library_says(run, options, mechanism, as_published):
    code, out, err = run(*options, "--queries", "60", "--json", *["--as-published"] * as_published)
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert told == analyze(VOTES[:60], mechanism, 1e-5, as_published=as_published).to_dict()
    assert {"epsilon", "order", "answered", "releasable"} <= told.keys()
    assert told["releasable"] is False


def test_text_warns(run):
    code, out, _ = run(*CONFIDENT)
    assert code == 0
    assert "Not releasable" in out
    assert "Expected answers" in out


@pytest.mark.parametrize("options", [options for options, _ in CASES])
def test_release_leaves_nothing_else_of_the_votes(run, options):
    code, out, err = run(*options, "--release", "8,0.025,4", "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert told["releasable"] is True
    assert told["answered"] is None
    assert json.loads(run(*options, "--release", "8,0.025,4", "--json")[1]) == told, "a second draw would cost again"
    text = run(*options, "--release", "8,0.025,4")[1]
    assert "Releasable" in text
    assert "Not releasable" not in text


def test_votes_are_released_once(run, tmp_path):
    """The number that was told is told again, and no other question about the same votes, in whatever file form, is answered."""
    asked = ("--mechanism", "gnmax", "--sigma2", "12", "--json")
    told = json.loads(run(*asked, "--release", "8,0.025,4")[1])
    kept = tmp_path / "votes.npy.released.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    np.save(tmp_path / "votes.npy", VOTES)
    assert json.loads(run(*asked, "--release", "8,0.025,4")[1]) == told
    for other in (("--release", "8,0.02,4"), ("--release", "8,0.025,4", "--queries", "50")):
        code, out, err = run(*asked, *other)
        assert (code, out, "Every release of these votes costs" in err) == (2, "", True)
    np.save(tmp_path / "votes.npy", VOTES[::-1])
    assert json.loads(run(*asked, "--release", "8,0.025,4")[1])["epsilon"] != told["epsilon"]
    np.save(tmp_path / "votes.npy", VOTES)
    assert json.loads(run(*asked, "--release", "8,0.025,4")[1]) == told
    kept.write_text("[{}]")
    code, out, err = run(*asked, "--release", "8,0.025,4")
    assert (code, out, "Restore it" in err) == (2, "", True)


def test_nothing_is_told_that_cannot_be_kept(run, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("sfumato.pate._told.whole_file", full)
    code, out, _ = run("--mechanism", "gnmax", "--sigma2", "12", "--release", "8,0.025,4")
    assert (code != 0, out) == (True, "")


@pytest.mark.parametrize(
    ("fragment", "options"),
    [
        ("--scale with --mechanism lnmax", ("--mechanism", "lnmax")),
        ("--scale with --mechanism lnmax", ("--mechanism", "lnmax", "--scale", "6", "--sigma2", "4")),
        ("--sigma2 with --mechanism gnmax", ("--mechanism", "gnmax", "--sigma1", "6", "--sigma2", "4")),
        ("--threshold --sigma1 --sigma2", ("--mechanism", "confident-gnmax", "--sigma1", "6", "--sigma2", "4")),
        ("lnmax, gnmax, confident-gnmax", ("--mechanism", "laplace", "--scale", "6")),
        ("scale", ("--mechanism", "lnmax", "--scale", "-6")),
        ("<= 100, got 101", ("--mechanism", "lnmax", "--scale", "6", "--queries", "101")),
        ("ORDER,BETA,NOISE", ("--mechanism", "gnmax", "--sigma2", "6", "--release", "8,0.025")),
        ("smaller beta", ("--mechanism", "gnmax", "--sigma2", "12", "--release", "8,0.2,4")),
        ("without --as-published", (*CONFIDENT, "--release", "8,0.025,4", "--as-published")),
    ],
)
def test_wrong_options_are_one_line(run, fragment, options):
    code, out, err = run(*options)
    assert (code, out) == (2, "")
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert fragment in err


def test_wrong_files_and_deltas_are_one_line(run, tmp_path):
    (tmp_path / "votes.csv").write_text("9,1\n")
    for changes in ({"votes": tmp_path / "votes.csv"}, {"votes": tmp_path / "absent.npy"}, {"delta": "0"}):
        code, out, err = run("--mechanism", "gnmax", "--sigma2", "12", **changes)
        assert (code, out, err.count("\n")) == (2, "", 1)
