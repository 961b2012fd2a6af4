"""Who signed: a key that anyone can sign for binds nobody, and a signature alone does not say whose it is."""

import hashlib
import json
import shutil

import pytest
from contracts_forgery import seal
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import sfumato as sf
from sfumato.graph import stochastic_block_model
from sfumato.record.ledger import canonical_json
from sfumato.verify import VerifyInputError, main, verify

SIGNER, STRANGER = (Ed25519PrivateKey.from_private_bytes(bytes([k]) * 32) for k in (1, 2))
P, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
EIGHTH = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
"""y of two points of order 8; two others have p less it."""
WEAK = {
    f"{name}, sign {sign}": (y + (sign << 255)).to_bytes(32, "little")
    for name, y in {
        "neutral": 1, "order 2": P - 1, "order 4": 0, "order 8": EIGHTH, "order 8, too": P - EIGHTH,
        "neutral, not reduced": P + 1, "order 4, not reduced": P, "a point, not reduced": P + 3, "the largest": 2**255 - 1,
    }.items()
    for sign in (0, 1)
}  # fmt: skip


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    graph, unit = (
        stochastic_block_model(60, 3, mean_degree=12, num_features=4, seed=0).with_split(),
        sf.EdgeLevel(directed=False),
    )
    plan = sf.GAP(epochs=1).calibrate(sf.Budget(2.0, 1e-6), unit, graph.public_facts(unit))
    return plan.fit(graph).save(tmp_path_factory.mktemp("honest") / "run")


@pytest.fixture
def folder(honest, tmp_path):
    return shutil.copytree(honest, tmp_path / "run") / "release"


def public(key):
    return key.public_key().public_bytes_raw()


def sign(folder, key, signature):
    value = {"algorithm": "ed25519", "public_key": key.hex(), "signature": signature.hex()}
    (folder / "signature.json").write_text(canonical_json(value) + "\n")


def written(path, key):
    path.write_text(key.hex() + "\n")
    return path


def test_the_verdict_names_the_key_and_whether_it_was_the_one_given(folder, tmp_path, capsys):
    """A stranger's signature holds; that it is the publisher's, only the publisher's key can say."""
    sign(folder, public(STRANGER), STRANGER.sign((folder / "manifest.json").read_bytes()))
    digest = hashlib.sha256(public(STRANGER)).hexdigest()
    assert main([str(folder)]) == 0
    said = capsys.readouterr().out
    assert f"signature: holds, by key {public(STRANGER).hex()}, fingerprint SHA256:{digest}\n" in said
    assert "origin: not checked, since anyone can sign with a key of their own" in said
    theirs = written(tmp_path / "theirs", public(STRANGER))
    assert main([str(folder), "--public-key", str(theirs)]) == 0
    assert "origin: checked, this is the key that was given\n" in capsys.readouterr().out
    assert main([str(folder), "--public-key", str(written(tmp_path / "mine", public(SIGNER)))]) == 1
    said = capsys.readouterr().out
    assert "origin:" not in said
    assert "problem: signature.json: public_key: is not the key that was given\n" in said


@pytest.mark.parametrize("key", WEAK.values(), ids=WEAK)
def test_keys_that_bind_nobody_are_refused(folder, tmp_path, key):
    """For the neutral point the signature of itself and 0 passes, whatever the message is."""
    sign(folder, key, (1).to_bytes(64, "little"))
    result = verify(folder)
    assert not result.signed
    assert any(text.startswith("signature.json: public_key: is of small order") for text in result.problems)
    with pytest.raises(VerifyInputError, match="anybody can sign for it"):
        verify(folder, written(tmp_path / "weak", key))


def test_a_constant_signature_does_not_pass_for_two_messages(folder):
    for name in ("one", "two"):
        document = json.loads((folder / "spec.json").read_text())
        document["graph"]["name"] = name
        (folder / "spec.json").write_text(canonical_json(document) + "\n")
        seal(folder)
        sign(folder, WEAK["neutral, sign 0"], (1).to_bytes(64, "little"))
        assert not verify(folder).valid


def test_a_second_spelling_of_a_signature_is_refused(folder):
    raw = SIGNER.sign((folder / "manifest.json").read_bytes())
    sign(folder, public(SIGNER), raw)
    assert verify(folder).valid
    again = (int.from_bytes(raw[32:], "little") + ORDER).to_bytes(32, "little")
    sign(folder, public(SIGNER), raw[:32] + again)
    assert verify(folder).problems == ("signature.json: signature: does not sign manifest.json",)
