"""Who signed: a key that anyone can sign for binds nobody, and a signature alone does not say whose it is."""

import hashlib

import pytest
from contracts_forgery import SIGNER, STRANGER, public, put_signature, sign

from sfumato.verify import VerifyInputError, main, verify

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


@pytest.fixture
def folder(copy_of):
    return copy_of("gap of edges") / "release"


def written(path, key):
    path.write_text(key.hex() + "\n")
    return path


def test_the_verdict_names_the_key_and_whether_it_was_the_one_given(folder, tmp_path, capsys):
    """A stranger's signature holds; that it is the publisher's, only the publisher's key can say."""
    sign(folder, STRANGER)
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
    put_signature(folder, key, (1).to_bytes(64, "little"))
    result = verify(folder)
    assert not result.signed
    assert any(text.startswith("signature.json: public_key: is of small order") for text in result.problems)
    with pytest.raises(VerifyInputError, match="anybody can sign for it"):
        verify(folder, written(tmp_path / "weak", key))


def test_a_second_spelling_of_a_signature_is_refused(folder):
    raw = SIGNER.sign((folder / "manifest.json").read_bytes())
    put_signature(folder, public(SIGNER), raw)
    assert verify(folder).valid
    again = (int.from_bytes(raw[32:], "little") + ORDER).to_bytes(32, "little")
    put_signature(folder, public(SIGNER), raw[:32] + again)
    assert verify(folder).problems == ("signature.json: signature: does not sign manifest.json",)
