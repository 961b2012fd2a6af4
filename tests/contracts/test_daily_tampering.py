"""Forged runs of daily messages: claims that do not follow from the history that was declared are refused."""

import shutil

import numpy as np
import pytest
from contracts_forgery import rewrite
from contracts_quick import UNITS, pixels
from safetensors.numpy import load_file, save_file

import sfumato as sf
from sfumato import verify
from sfumato.central._daily import DailyMessages

GRAPH = pixels(30, 0, 144, 29, mean_degree=9)


@pytest.fixture(scope="module", params=["increments", "sums"])
def run(request, tmp_path_factory):
    unit, method = UNITS["edge"], DailyMessages(days=8, refreshes=4, noise=request.param, epochs=2, deletions=True)
    fitted = method.calibrate(sf.Budget(2.0, 1e-6), unit, GRAPH.public_facts(unit)).fit(GRAPH)
    return fitted.save(tmp_path_factory.mktemp("daily") / request.param), request.param


def setting(**values):
    def change(certificate, spec):
        for one in (certificate, spec):
            one["settings"].update(values)

    return change


def caveats(certificate, _):
    certificate["caveats"] = [one for one in certificate["caveats"] if "whole history" not in one]


def touched(certificate, _):
    certificate["releases"][0]["affected_coordinates"] += 1


def kind(certificate, _):
    event = {"type": "gaussian", "noise_multiplier": 9.0, "count": 1}
    other = {"type": "pure", "epsilon": 0.1, "count": 1}
    certificate["releases"][0]["event"] = other if certificate["releases"][0]["event"]["type"] == "gaussian" else event


def parts(run):
    path = run / "release" / "releases.safetensors"
    arrays = load_file(path)
    save_file({**arrays, "aggregate/1": arrays["aggregate/1"] + 1}, path)


FORGED = {
    "more than one refresh a day": (setting(refreshes=9), "at most one a day"),
    "deletions that were counted and are not": (setting(deletions=False), "caveat"),
    "another number of days": (setting(days=9), "caveat"),
    "no word of the history": (caveats, "caveat"),
    "more coordinates": (touched, "affected_coordinates|touch"),
    "noise of the other form": (kind, "type"),
}


@pytest.mark.parametrize("name", FORGED)
def test_forgeries_are_refused(name, run, tmp_path):
    folder, _ = run
    shutil.copytree(folder, tmp_path / "run")
    assert verify.verify(tmp_path / "run").valid
    change, words = FORGED[name]
    rewrite(tmp_path / "run", change)
    found = verify.verify(tmp_path / "run")
    assert not found.valid
    assert any(word in problem for problem in found.problems for word in words.split("|")), found.problems


def test_days_beyond_the_horizon_of_sums_and_parts_of_counts_are_refused(run, tmp_path):
    folder, noise = run
    shutil.copytree(folder, tmp_path / "run")
    rewrite(tmp_path / "run", setting(day=9))
    assert verify.verify(tmp_path / "run").valid == (noise == "increments"), "increments have no horizon"
    shutil.rmtree(tmp_path / "run")
    shutil.copytree(folder, tmp_path / "run")
    parts(tmp_path / "run")
    rewrite(tmp_path / "run", lambda *_: None)
    found = verify.verify(tmp_path / "run")
    assert found.valid == (noise == "sums")
    assert np.any([("parts of counts" in one) for one in found.problems]) == (noise == "increments")
