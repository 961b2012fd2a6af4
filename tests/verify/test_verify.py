"""The verifier against run folders written here, byte by byte."""

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from verify_written import (
    GAP,
    GAP_EPSILON,
    SIGNER,
    canonical,
    chain,
    change,
    describe,
    gaussian,
    header,
    poisson,
    safetensors,
    seal,
    sign,
    write,
)  # fmt: skip

from sfumato import verify as module
from sfumato.verify import VerifyInputError, main, verify
from sfumato.verify.epsilon import epsilon_bracket


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "run", describe(GAP, GAP_EPSILON))


def test_valid_run(folder):
    for path in (folder, folder.parent):
        result = verify(path)
        assert result.problems == ()
        assert result.valid
        assert not result.signed
        assert result.epsilon_low <= 1.211967453 <= result.epsilon_high <= 1.21196746
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


NAN, HUGE = float("nan"), 10**400
# Faults in the certificate alone, with a chain and a manifest that fit: path, value, the field that must be named.
CERTIFICATE_FAULTS = [
    (("format",), 1, "format"),
    (("format",), 3, "format"),
    (("format",), 2.0, "format"),
    (("format",), True, "format"),
    (("method",), "mlp", "method"),
    (("method",), 7, "method"),
    (("surprise",), 1, "surprise"),
    (("assumptions",), ..., "assumptions"),
    (("assumptions",), "none", "assumptions"),
    (("assumptions",), [""], "assumptions[0]"),
    (("notes",), [""], "notes[0]"),
    (("who_may_see", "never"), ..., "who_may_see.never"),
    (("ledger_head",), "0" * 64, "ledger_head"),
    (("ledger_head",), "xyz", "ledger_head"),
    (("unit",), None, "unit"),
    (("unit", "name"), "galaxy", "unit.name"),
    (("unit", "name"), ["edge"], "unit.name"),
    (("unit", "directed"), True, "unit.directed"),
    (("unit", "directed"), 1, "unit.directed"),
    (("claim", "epsilon"), 1.3, "claim.epsilon"),
    (("claim", "epsilon"), -1, "claim.epsilon"),
    (("claim", "epsilon"), True, "claim.epsilon"),
    (("claim", "epsilon"), "1.0", "claim.epsilon"),
    (("claim", "epsilon"), None, "claim.epsilon"),
    (("claim", "epsilon"), HUGE, "claim.epsilon"),
    (("claim", "epsilon"), 1e5, "claim.epsilon"),
    (("claim", "delta"), 1e-5, "claim.delta"),
    (("claim", "delta"), 1.5, "claim.delta"),
    (("budget", "epsilon"), 1.0, "claim.epsilon"),
    (("accounting", "sampler_tau"), 2.0**-90, "accounting.sampler_tau"),
    (("accounting", "delta_sampler"), 0.0, "accounting.delta_sampler"),
    (("accounting", "method"), "rdp", "accounting.method"),
    (("accounting", "method"), "none", "accounting.method"),
    (("releases",), {}, "releases"),
    (("releases", 0), ..., "releases"),
    (("releases", 0), 3, "releases[0]"),
    (("releases", 0, "name"), "aggregate/2", "releases[0].name"),
    (("releases", 0, "event", "type"), "laplace", "releases[0].event.type"),
    (("releases", 0, "event", "noise_multiplier"), 7.0, "releases[0].event.noise_multiplier"),
    (("releases", 0, "event", "noise_multiplier"), 0, "releases[0].event.noise_multiplier"),
    (("releases", 0, "event", "noise_multiplier"), True, "releases[0].event.noise_multiplier"),
    (("releases", 0, "event", "count"), 1.0, "releases[0].event.count"),
    (("releases", 0, "event", "count"), 0, "releases[0].event.count"),
    (("releases", 0, "event", "count"), ..., "releases[0].event.count"),
    (("releases", 0, "shape"), [12], "releases[0].shape"),
    (("releases", 0, "shape", 1), -3, "releases[0].shape[1]"),
    (("releases", 0, "affected_coordinates"), 3, "releases[0].affected_coordinates"),
    (("releases", 0, "visible_to"), "nobody", "releases[0].visible_to"),
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


@pytest.mark.parametrize("field", ["index", "previous", "hash"])
def test_broken_links_are_named(folder, field):
    path = folder / "ledger.jsonl"
    lines = path.read_text().splitlines()
    entry = json.loads(lines[1])
    entry[field] = 5 if field == "index" else "ab" * 32
    path.write_text("\n".join([lines[0], canonical(entry), *lines[2:]]) + "\n")
    seal(folder)
    assert any(text.startswith(f"ledger.jsonl line 2: {field}: ") for text in verify(folder).problems)


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


BYTE_FAULTS = {
    "not json": lambda data: b"{",
    "nan": lambda data: data.replace(b'"width":3', b'"width":NaN'),
    "infinite": lambda data: data.replace(b'"width":3', b'"width":1e999'),
    "huge": lambda data: data.replace(b'"width":3', b'"width":' + b"9" * 5000),
    "twice": lambda data: data.replace(b'"width":3', b'"width":3,"width":3'),
    "space": lambda data: data.replace(b":", b": ", 1),
    "no newline": lambda data: data.rstrip(b"\n"),
    "not utf-8": lambda data: data.replace(b"gap", b"g\xffp"),
    "surrogate": lambda data: data.replace(b'"width":3', b'"width":"\\ud800"'),
    "deep": lambda data: data.replace(b'"width":3', b'"width":' + b"[" * 100_000 + b"]" * 100_000),
    "list": lambda data: b"[]\n",
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("name", ["certificate.json", "ledger.jsonl", "manifest.json", "signature.json"])
@pytest.mark.parametrize("fault", BYTE_FAULTS.values(), ids=BYTE_FAULTS)
def test_bytes_that_are_not_canonical_json_are_problems(folder, name, fault):
    sign(folder)
    path = folder / name
    before = path.read_bytes()
    path.write_bytes(fault(before))
    if path.read_bytes() == before:
        path.write_bytes(before + b"\n")
    if name not in ("manifest.json", "signature.json"):
        seal(folder)
    result = verify(folder)
    assert any(text.startswith(name) for text in result.problems), result.problems


@pytest.mark.parametrize("name", ["certificate.json", "ledger.jsonl", "model.safetensors", "releases.safetensors",
                                  "spec.json", "manifest.json"])  # fmt: skip
def test_missing_files_and_flipped_bits_are_named(folder, name):
    path = folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert any(text.startswith(f"{name}") for text in verify(folder).problems) or name == "manifest.json"
    assert not verify(folder).valid
    path.unlink()
    assert f"{name}: is missing" in verify(folder).problems


@pytest.mark.parametrize("name", ["model.safetensors", "spec.json"])
def test_a_required_file_is_missed_even_if_the_manifest_forgets_it(folder, name):
    (folder / name).unlink()
    seal(folder)
    assert verify(folder).problems == (f"{name}: is missing",)


def test_extra_files_are_named(folder):
    (folder / "hop0.npy").write_bytes(b"raw")
    (folder / "sub").mkdir()
    (folder / "x\nVALID.json").write_bytes(b"{}")
    (folder / "link.json").symlink_to(folder / "spec.json")
    problems = verify(folder).problems
    assert "hop0.npy: is not a file of a release; remove it" in problems
    assert "x\\nVALID.json: is not a file of a release; remove it" in problems
    assert any(text.startswith("sub: is a link, a folder") for text in problems)
    assert any(text.startswith("link.json: is a link") for text in problems)


def test_the_manifest_cannot_reach_outside(folder):
    (folder.parent / "secret").write_text("x")
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"]["../secret"] = hashlib.sha256(b"x").hexdigest()
    manifest["files"]["spec.json"] = 5
    (folder / "manifest.json").write_text(canonical(manifest) + "\n")
    problems = verify(folder).problems
    assert "manifest.json: files.../secret: must not be listed" in problems
    assert any(text.startswith("spec.json: its SHA-256") for text in problems)


def test_evaluation_beside_the_release_does_not_matter(folder):
    (folder.parent / "evaluation").mkdir()
    (folder.parent / "evaluation" / "metrics.json").write_text("{}")
    assert verify(folder.parent).valid


def tensor(**fields):
    return {"dtype": "I64", "shape": [4, 3], "data_offsets": [0, 96], **fields}


FIRST = "is not a valid safetensors header: aggregate/1"
TENSOR_FAULTS = [
    (safetensors({"aggregate/1": [4, 3]}, "I64"), "aggregate/2: "),
    (safetensors({"aggregate/1": [4, 3], "aggregate/2": [3, 4]}, "I64"), "aggregate/2: "),
    (safetensors({"aggregate/1": [4, 3], "aggregate/2": [4, 3], "hop0": [4, 3]}, "I64"), "hop0: "),
    *((text, "header: ") for text in (b"", b"\xff" * 8 + b"{}", b"\2" + bytes(7) + b"[]", b"\2" + bytes(7) + b"{x")),
    (header({"aggregate/1": 5}), "header: "),
    (header({"aggregate/1": tensor(dtype=[])}, bytes(96)), "header: "),
    (header({"aggregate/1": tensor(shape=[4, True])}, bytes(96)), "header: "),
    (header({"aggregate/1": tensor(shape=[-4, -3])}, bytes(96)), "header: "),
    (header({"aggregate/1": tensor(data_offsets=[0, 92])}, bytes(92)), "header: "),
    (header({"aggregate/1": tensor(data_offsets="ab")}, bytes(96)), "header: "),
    (header({"aggregate/1": tensor()}, bytes(97)), "header: "),
    (header({"aggregate/1": tensor(), "aggregate/2": tensor()}, bytes(96)), "header: "),
    *((safetensors({"aggregate/1": [1]}, kind), f"header: {FIRST} has dtype {kind}") for kind in ("F32", "F64", "U64")),
]


@pytest.mark.parametrize(("data", "problem"), TENSOR_FAULTS)
def test_tensor_faults_are_named(folder, data, problem):
    (folder / "releases.safetensors").write_bytes(data)
    seal(folder)
    problems = verify(folder).problems
    assert problems
    assert all(text.startswith(f"releases.safetensors: {problem}") for text in problems), problems


def test_tensors_as_the_safetensors_package_writes_them(folder):
    numpy, package = pytest.importorskip("numpy"), pytest.importorskip("safetensors.numpy")
    tensors = {f"aggregate/{k}": numpy.zeros((4, 3), numpy.int64) for k in (1, 2)}
    package.save_file(tensors, folder / "releases.safetensors")
    seal(folder)
    assert verify(folder).valid
    package.save_file(tensors, folder / "releases.safetensors", metadata={"labels": "0110"})
    seal(folder)
    assert "releases.safetensors: header" in verify(folder).problems[0]


def keys(tmp_path):
    public = SIGNER.public_key()
    form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    (tmp_path / "key.pem").write_bytes(public.public_bytes(*form))
    (tmp_path / "key.hex").write_text(public.public_bytes_raw().hex() + "\n")
    (tmp_path / "other.hex").write_text("ab" * 32)
    (tmp_path / "x25519.pem").write_bytes(X25519PrivateKey.generate().public_key().public_bytes(*form))
    (tmp_path / "junk.pem").write_text("junk")


def test_signatures(tmp_path, folder):
    keys(tmp_path)
    assert verify(folder, tmp_path / "key.pem").problems[0].startswith("signature.json: is missing")
    sign(folder)
    for key in (None, tmp_path / "key.pem", tmp_path / "key.hex"):
        assert verify(folder, key).valid
        assert verify(folder, key).signed
    assert verify(folder, tmp_path / "other.hex").problems[0].startswith("signature.json: public_key: ")
    signature = json.loads((folder / "signature.json").read_text())
    for field, value in (("signature", "0" * 128), ("public_key", "0" * 64), ("algorithm", "rsa"), ("signature", "0")):
        (folder / "signature.json").write_text(canonical({**signature, field: value}) + "\n")
        result = verify(folder)
        assert not result.signed
        assert result.problems[0].startswith("signature.json: ")


def test_a_signature_does_not_cover_a_later_change(folder):
    sign(folder)
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1] + b"\1")
    seal(folder)
    assert verify(folder).problems == ("signature.json: signature: does not sign manifest.json",)


def test_bad_input_is_refused(tmp_path, folder, capsys):
    keys(tmp_path)
    (tmp_path / "empty").mkdir()
    cases = [
        ([str(tmp_path / "absent")], "absent"),
        ([str(tmp_path / "empty")], "release/"),
        *(([str(folder), "--public-key", str(tmp_path / k)], k) for k in ("x25519.pem", "junk.pem", "absent.pem")),
    ]
    for argv, word in cases:
        assert main(argv) == 2
        error = capsys.readouterr().err
        assert word in error
        assert error.count("\n") == 1
    with pytest.raises(VerifyInputError, match="not a folder"):
        verify(tmp_path / "absent")


def test_command_line(folder):
    command = [sys.executable, "-m", "sfumato.verify", str(folder.parent)]
    environment = {"PYTHONPATH": str(Path(module.__file__).parents[1]), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("VALID: ")
    (folder / "spec.json").write_text("[]\n")
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("NOT VALID: ")
    assert "problem: spec.json: its SHA-256" in done.stdout
