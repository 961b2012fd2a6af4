"""Keys: only who has them can sign, nothing that was signed for one purpose serves another, and no text shows them."""

import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from wire_messages import ASKED, SERVER, schema_of

from sfumato.collect._keys import DeviceKeys, ServerKey, mac, same, verify, verify_batch
from sfumato.errors import InputError

DEVICE = DeviceKeys(bytes(range(1, 33)), bytes(range(2, 34)))
OTHER = DeviceKeys(bytes(range(3, 35)), bytes(range(4, 36)))
MESSAGE = b"a report"

# Points of small order of X25519: whoever sends one knows the shared secret, whatever the other side's key is.
LOW_ORDER = [
    bytes(32),
    b"\x01" + bytes(31),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    (2**255 - 20).to_bytes(32, "little"),
    (2**255 - 19).to_bytes(32, "little"),
    (2**255 - 18).to_bytes(32, "little"),
]


def flipped(text, place):
    changed = bytearray(text)
    changed[place // 8] ^= 1 << place % 8
    return bytes(changed)


def test_signatures():
    signature = DEVICE.sign(MESSAGE)
    assert verify(DEVICE.sign_key, MESSAGE, signature)
    assert not verify(OTHER.sign_key, MESSAGE, signature)
    assert not verify(DEVICE.sign_key, MESSAGE + b"\0", signature)
    assert not verify(DEVICE.sign_key, MESSAGE[:-1], signature)
    assert not any(verify(DEVICE.sign_key, MESSAGE, flipped(signature, place)) for place in range(512))
    assert not any(verify(DEVICE.sign_key, flipped(MESSAGE, place), signature) for place in range(8 * len(MESSAGE)))


def test_a_signature_has_a_single_form():
    """S + L would satisfy the same equation."""
    order = 2**252 + 27742317777372353535851937790883648493
    signature = DEVICE.sign(MESSAGE)
    second = signature[:32] + (int.from_bytes(signature[32:], "little") + order).to_bytes(32, "little")
    assert not verify(DEVICE.sign_key, MESSAGE, second)


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33), b"\xff" * 32])
def test_keys_and_signatures_of_another_form_are_refused(key):
    assert not verify(key, MESSAGE, DEVICE.sign(MESSAGE))
    assert not verify_batch(key, MESSAGE, DEVICE.sign_batch(MESSAGE))
    assert not verify(DEVICE.sign_key, MESSAGE, key)


def test_purposes_are_apart():
    assert not verify_batch(DEVICE.sign_key, MESSAGE, DEVICE.sign(MESSAGE))
    assert not verify(DEVICE.sign_key, MESSAGE, DEVICE.sign_batch(MESSAGE))
    assert verify_batch(DEVICE.sign_key, MESSAGE, DEVICE.sign_batch(MESSAGE))
    plain = Ed25519PrivateKey.from_private_bytes(DEVICE.signing).sign(MESSAGE)
    assert not verify(DEVICE.sign_key, MESSAGE, plain)
    assert not verify_batch(DEVICE.sign_key, MESSAGE, plain)


def test_shared_secrets():
    key = SERVER.mac_key(DEVICE.agree_key, "ada")
    assert key == DEVICE.mac_key(SERVER.public, "ada")
    others = (
        SERVER.mac_key(DEVICE.agree_key, "bob"),
        SERVER.mac_key(OTHER.agree_key, "ada"),
        ServerKey(bytes(32)).mac_key(DEVICE.agree_key, "ada"),
        DEVICE.mac_key(OTHER.agree_key, "ada"),
        SERVER.mac_key(DEVICE.agree_key, ""),
    )
    assert len({key, *others}) == 6
    assert len(key) == 32
    assert mac(key, MESSAGE) == mac(DEVICE.mac_key(SERVER.public, "ada"), MESSAGE)
    assert mac(key, MESSAGE) not in {mac(key, MESSAGE + b"\0"), *(mac(other, MESSAGE) for other in others)}


def test_golden_keys():
    """X25519 of RFC 7748, HKDF of RFC 5869, HMAC of RFC 2104, Ed25519 of RFC 8032: other values lock enrolled devices out."""
    assert SERVER.public.hex() == "8f40c5adb68f25624ae5b214ea767a6ec94d829d3d7b5e1ad1ba6f3e2138285f"
    assert (
        SERVER.mac_key(DEVICE.agree_key, "ada").hex()
        == "e133c2223d7b5e08a6b364a013e7c4bf19ea35ed7ab415937f2c277aa58e7890"
    )
    assert mac(bytes(32), MESSAGE).hex() == "71d3100c76500ad600873393a2b412f6fec8d12445d300b8f5c0a37edeaa5eaf"
    assert SERVER.code(schema_of(ASKED["subset"]), "ada") == "58af92d3cc6c0fa4c63d1287111d56f0"
    assert DEVICE.sign(MESSAGE)[:32].hex() == "ad361c4ce45a22789e561660a8c76ac9750b9480f770169733857598123d4677"
    assert DEVICE.sign(MESSAGE)[32:].hex() == "155315b47dfe99d09b9144526636db4bd879e2716a0fd605253b2e20f5b58d0b"


@pytest.mark.parametrize("point", LOW_ORDER, ids=bytes.hex)
def test_points_of_low_order_are_refused(point):
    for key in (SERVER, DEVICE):
        with pytest.raises(InputError, match="leads to no secret"):
            key.mac_key(point, "ada")
        with pytest.raises(InputError, match="leads to no secret"):
            key.mac_key(point[:-1] + bytes([point[-1] | 128]), "ada")  # the highest bit is not read


@pytest.mark.parametrize("point", [b"", bytes(31), bytes(33)])
def test_points_of_another_length_are_refused(point):
    with pytest.raises(InputError, match="32 bytes"):
        SERVER.mac_key(point, "ada")


def test_codes():
    schema, later = schema_of(ASKED["subset"]), schema_of(ASKED["subset"], closes="2027-01-02T00:00:00Z")
    codes = [SERVER.code(schema, user) for user in ("ada", "bob", "adb", "a")]
    codes += [SERVER.code(later, "ada"), ServerKey(bytes(32)).code(schema, "ada")]
    assert len({*codes}) == len(codes)
    assert all(len(code) == 32 and not set(code) - set("0123456789abcdef") for code in codes)
    assert SERVER.code(schema, "ada") == codes[0]


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [("ab", "ab", True), ("ab", "aB", False), ("ab", "abc", False), ("", "", True), (b"ab", "ab", True)]
    + [(text, "ab", False) for text in ("é", "漢", "\ud800", b"\xff", "\0")],
)
def test_same(one, other, equal):
    assert same(one, other) is equal
    assert same(other, one) is equal


def test_new_keys_differ():
    assert len({ServerKey.new().secret for _ in range(3)}) == 3
    first, second = DeviceKeys.new(), DeviceKeys.new()
    assert len({first.signing, first.agreeing, second.signing, second.agreeing}) == 4


def test_secrets_are_in_no_text():
    for key, secrets in ((SERVER, (SERVER.secret,)), (DEVICE, (DEVICE.signing, DEVICE.agreeing))):
        _ = key.mac_key(OTHER.agree_key, "ada")
        for secret in secrets:
            for text in (repr(key), str(key), f"{key}"):
                assert repr(secret)[2:12] not in text
                assert secret.hex() not in text


def test_server_key_files(tmp_path):
    path = tmp_path / "server.key"
    path.write_text("old")
    path.chmod(0o644)
    SERVER.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert ServerKey.read(path) == SERVER
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "zz" * 32, "0" * 63, "é" * 32, "00" * 32 + "\n00"])
def test_files_that_hold_no_key_are_refused(tmp_path, text):
    path = tmp_path / "server.key"
    path.touch(0o600)
    path.write_bytes(text.encode())
    with pytest.raises(InputError, match=r"server\.key to hold a server key"):
        ServerKey.read(path)
