"""The verifier against files, tensors and signatures that were changed, and its command line."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from verify_written import GAP, GAP_EPSILON, SIGNER, canonical, describe, header, safetensors, seal, sign, write

from sfumato import verify as module
from sfumato.verify import VerifyInputError, main, verify


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "run", describe(GAP, GAP_EPSILON))


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


@pytest.mark.parametrize("name", ["model.safetensors", "spec.json"])
def test_a_required_file_is_missed_even_if_the_manifest_forgets_it(folder, name):
    (folder / name).unlink()
    seal(folder)
    assert verify(folder).problems == (f"{name}: is missing",)


def test_a_line_that_follows_another_history_is_named(folder):
    """Its own hash is right, and so is that of every line after it."""
    entries, previous = [json.loads(line) for line in (folder / "ledger.jsonl").read_text().splitlines()], "ab" * 32
    for entry in entries[1:]:
        entry["previous"] = previous
        body = {key: value for key, value in entry.items() if key != "hash"}
        previous = entry["hash"] = hashlib.sha256(canonical(body).encode()).hexdigest()
    certificate = json.loads((folder / "certificate.json").read_text()) | {"ledger_head": previous}
    (folder / "ledger.jsonl").write_text("".join(canonical(entry) + "\n" for entry in entries))
    (folder / "certificate.json").write_text(canonical(certificate) + "\n")
    seal(folder)
    assert verify(folder).problems == ("ledger.jsonl line 2: previous: is not the hash of the line before",)


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
    (safetensors({"aggregate/1": [4, 3], "aggregate/2": [4, 3]}, "I32"), "aggregate/"),
    *((safetensors({"aggregate/1": [1]}, kind), f"header: {FIRST} has dtype {kind}") for kind in ("F32", "F64", "U64")),
]


@pytest.mark.parametrize(("data", "problem"), TENSOR_FAULTS)
def test_tensor_faults_are_named(folder, data, problem):
    (folder / "releases.safetensors").write_bytes(data)
    seal(folder)
    problems = verify(folder).problems
    assert problems
    assert all(text.startswith(f"releases.safetensors: {problem}") for text in problems), problems


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
    with pytest.raises(VerifyInputError, match="no such file"):
        verify(tmp_path / "absent")


def test_command_line(folder, capsys):
    command = [sys.executable, "-m", "sfumato.verify", str(folder.parent)]
    environment = {"PYTHONPATH": str(Path(module.__file__).parents[1]), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("VALID: ")
    (folder / "spec.json").write_text("[]\n")
    assert main([str(folder.parent)]) == 1
    said = capsys.readouterr().out
    assert said.startswith("NOT VALID: ")
    assert "problem: spec.json: its SHA-256" in said
