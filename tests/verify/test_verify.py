"""The verifier against run folders written here, byte by byte."""

import math

import pytest
from verify_written import (
    GAP,
    GAP_EPSILON,
    canonical,
    chain,
    change,
    describe,
    gaussian,
    poisson,
    seal,
    write,
)  # fmt: skip

from sfumato.verify import main, verify
from sfumato.verify._epsilon import epsilon_bracket


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "run", describe(GAP, GAP_EPSILON))


def test_valid_run(folder):
    for path in (folder, folder.parent):
        result = verify(path)
        assert result.problems == ()
        assert result.valid
        assert not result.signed
        assert result.epsilon_low <= 1.2119674527380743 <= result.epsilon_high <= 1.21196746
        assert (result.claim_epsilon, result.claim_delta) == (GAP_EPSILON, 1e-6)


@pytest.mark.parametrize(
    ("unit", "events", "epsilon"),
    [
        ({"name": "edge", "relation": "add-remove", "directed": True}, GAP, GAP_EPSILON),
        ({"name": "node", "relation": "remove", "arcs": "owned", "max_out_degree": 3}, GAP, GAP_EPSILON),
        ({"name": "node", "relation": "replace", "arcs": "owned", "max_out_degree": 1}, GAP, GAP_EPSILON),
        ({"name": "node", "relation": "remove", "arcs": "owned", "max_out_degree": 100},
         [poisson(256 / 14235, 1.0, 556), gaussian(1.0), gaussian(1.0), poisson(256 / 14235, 1.0, 556)], None),
        ({"name": "record", "relation": "replace"}, [poisson(0.01, 2.0, 700, "replace")], None),
    ],
)  # fmt: skip
def test_valid_under_every_unit(tmp_path, unit, events, epsilon):
    epsilon = epsilon or epsilon_bracket(events, 1e-6)[1]
    result = verify(write(tmp_path / "run", describe(events, epsilon, unit=unit)))
    assert result.problems == ()
    assert result.epsilon_high <= 1.0005 * result.epsilon_low


def test_no_privacy_is_consistent_and_says_so(tmp_path, capsys):
    parts = describe([], None, None, {"name": "none", "relation": "none"})
    write(tmp_path / "run", parts)
    assert verify(tmp_path / "run").problems == ()
    assert main([str(tmp_path / "run")]) == 0
    assert "no privacy guarantee" in capsys.readouterr().out


@pytest.mark.parametrize("events", [GAP, [poisson(0.02, 1.0, 300)]], ids=["gaussian", "pld"])
@pytest.mark.parametrize(
    ("factor", "problem"),
    [(0.9, "claim.epsilon"), (0.9985, "claim.epsilon"), (1.0, ""), (1.002, ""), (1.5, "")],
)
def test_claims_below_the_truth_are_caught_and_claims_above_are_sound(tmp_path, events, factor, problem):
    truth = epsilon_bracket(events, 1e-6)[1]
    result = verify(write(tmp_path / "run", describe(events, truth * factor)))
    assert result.valid == (problem == "")
    assert all(text.startswith(f"certificate.json: {problem}: ") for text in result.problems)


def test_an_understated_gaussian_claim_is_caught_at_one_in_a_thousand(tmp_path):
    result = verify(write(tmp_path / "run", describe(GAP, 0.999 * GAP_EPSILON)))
    assert "certificate.json: claim.epsilon: 1.21075553 is too small" in result.problems[0]


def test_delta_is_held_too(tmp_path):
    result = verify(write(tmp_path / "run", describe(GAP, GAP_EPSILON, delta=9e-7)))
    assert "claim.epsilon" in result.problems[0]
    result = verify(write(tmp_path / "zero", describe(GAP, GAP_EPSILON, delta=1e-40)))
    assert result.epsilon_high == math.inf


def test_checking_takes_bounded_time():
    assert epsilon_bracket([poisson(1e-4, 5.0, 2 * 10**8)], 1e-6) == (0.0, math.inf)
    assert epsilon_bracket([gaussian(1e6, 2 * 10**8)], 1e-6)[1] < 1.0


# Faults in the certificate alone, with a chain and a manifest that fit: path, value, the field that must be named. Other edited
# fields are in tests/contracts/test_tampering.py, and values of another form in tests/record/test_certificate_schema.py.
CERTIFICATE_FAULTS = [
    (("format",), 4, "format"),
    (("method",), 7, "method"),
    (("notes",), [""], "notes[0]"),
    (("unit",), None, "unit"),
    (("unit", "name"), ["edge"], "unit.name"),
    (("unit", "directed"), True, "unit.directed"),
    (("claim", "epsilon"), 1.3, "claim.epsilon"),
    (("claim", "epsilon"), 1e5, "claim.epsilon"),
    (("budget", "epsilon"), 1.0, "claim.epsilon"),
    (("accounting", "method"), "none", "accounting.method"),
    (("releases", 0), 3, "releases[0]"),
    (("releases", 0, "event", "count"), ..., "releases[0].event.count"),
]


@pytest.mark.parametrize(("path", "value", "field"), CERTIFICATE_FAULTS)
def test_certificate_faults_are_named(tmp_path, path, value, field):
    parts = describe(GAP, GAP_EPSILON)
    change(parts["certificate"], path, value)
    result = verify(write(tmp_path / "run", parts))
    assert not result.valid
    assert any(text.startswith(f"certificate.json: {field}: ") for text in result.problems), result.problems
    assert all("\n" not in text for text in result.problems)


TRAINED = [poisson(0.02, 1.0, 300), gaussian(5.0), poisson(0.02, 1.0, 300)]
NODE = {"name": "node", "relation": "remove", "arcs": "owned", "max_out_degree": 3}
# Faults told consistently by plan, ledger and certificate: only the rules of accounting catch them.
AGREED_FAULTS = [
    (GAP, ("affected_coordinates",), 3, "affected_coordinates"),
    (GAP, ("affected_coordinates",), 13, "affected_coordinates"),
    (GAP, ("shape",), [4, 3, 1], "shape"),
    (GAP, ("shape",), [5, 3], "shape"),
    (GAP, ("shape",), [4, 4], "shape"),
    (GAP, ("event", "count"), 2, "event"),
    (GAP, ("event",), {"type": "laplace", "noise_multiplier": 5.0, "count": 1}, "event"),
    (TRAINED, ("affected_coordinates",), 9, "affected_coordinates"),
    (TRAINED, ("shape",), [11], "shape"),
    (TRAINED, ("event",), gaussian(1.0), "event.type"),
    (TRAINED, ("event", "steps"), 299, "event.steps"),
    (TRAINED, ("event", "sampling_prob"), 0.019, "event.sampling_prob"),
]


@pytest.mark.parametrize(("events", "path", "value", "field"), AGREED_FAULTS)
def test_agreed_faults_are_named(tmp_path, events, path, value, field):
    parts = describe(events, 20.0, unit=NODE if events is TRAINED else None)
    for releases in (parts["certificate"]["releases"], parts["lines"][0]["plan"]["releases"]):
        change(releases[0], path, value)
    change(parts["lines"][1]["release"], path, value)
    result = verify(write(tmp_path / "run", parts))
    assert any(text.startswith("certificate.json: releases[") and f"].{field}: " in text for text in result.problems)


@pytest.mark.parametrize(
    ("unit", "events", "field"),
    [
        ({"name": "node", "relation": "remove", "arcs": "incident", "max_out_degree": 3}, GAP, "releases[0].name"),
        ({"name": "node", "relation": "remove", "arcs": "owned", "max_out_degree": None}, GAP, "releases[0].name"),
        ({"name": "record", "relation": "replace"}, [poisson(0.02, 1.0, 50)], "releases[0].event.relation"),
    ],
)
def test_units_without_a_proof_are_refused(tmp_path, unit, events, field):
    parts = describe(events, 20.0)
    parts["certificate"]["unit"] = parts["lines"][0]["plan"]["unit"] = unit
    problems = verify(write(tmp_path / "run", parts)).problems
    assert any(text.startswith(f"certificate.json: {field}: ") for text in problems), problems


LEDGER_FAULTS = [
    (lambda p: p["lines"].pop(), "ledger.jsonl: 1 releases were made"),
    (lambda p: p["lines"].append(p["lines"][-1]), "ledger.jsonl: 3 releases were made"),
    (lambda p: p["lines"].insert(1, p["lines"].pop()), "ledger.jsonl line 2: release.name"),
    (lambda p: p["lines"].insert(1, p["lines"][0]), "ledger.jsonl line 2: kind"),
    (lambda p: p["lines"].pop(0), "ledger.jsonl line 1: kind"),
    (
        lambda p: change(p, ("lines", 1, "release", "event", "noise_multiplier"), 6.0),
        "ledger.jsonl line 2: release.event",
    ),
    (lambda p: change(p, ("lines", 1, "release", "shape"), "4x3"), "ledger.jsonl line 2: release.shape: "),
    (lambda p: change(p, ("lines", 1, "note"), "hello"), "ledger.jsonl line 2: note: is not a known field"),
    (lambda p: change(p, ("lines", 0, "plan", "claim"), ...), "ledger.jsonl line 1: plan.claim: is missing"),
    (lambda p: change(p, ("lines", 0, "plan", "method"), "mlp"), "certificate.json: method: "),
    (lambda p: change(p, ("lines", 0, "plan", "claim", "epsilon"), 1.3), "certificate.json: claim.epsilon: "),
    (lambda p: change(p, ("lines", 0, "plan", "delta_sampler"), 1e-20), "certificate.json: accounting.delta_sampler: "),
    (lambda p: change(p, ("lines", 0, "plan", "unit", "directed"), True), "certificate.json: unit.directed: "),
    (lambda p: change(p, ("lines", 0, "plan", "releases", 0, "event", "count"), True), "ledger.jsonl line 1: plan.rel"),
]


@pytest.mark.parametrize(("fault", "problem"), LEDGER_FAULTS)
def test_ledger_faults_are_named(tmp_path, fault, problem):
    parts = describe(GAP, GAP_EPSILON)
    fault(parts)
    problems = verify(write(tmp_path / "run", parts)).problems
    assert any(text.startswith(problem) for text in problems), problems


def test_a_ledger_rewritten_in_full_no_longer_fits_the_certificate(tmp_path):
    parts = describe(GAP, GAP_EPSILON)
    folder = write(tmp_path / "run", parts)
    plan = parts["lines"][0]["plan"]
    plan["releases"][0]["event"]["noise_multiplier"] = 50.0
    parts["lines"][1]["release"]["event"]["noise_multiplier"] = 50.0
    (folder / "ledger.jsonl").write_text("".join(canonical(entry) + "\n" for entry in chain(parts["lines"])))
    seal(folder)
    problems = verify(folder).problems
    assert any(text.startswith("certificate.json: releases[0].event.noise_multiplier: ") for text in problems)
    assert any(text.startswith("certificate.json: ledger_head: ") for text in problems)
