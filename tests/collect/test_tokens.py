"""One-time tokens: published vectors of RFC 9474, blindness, and what no token may do."""

import hashlib
import math
import secrets

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from sfumato.collect import _tokens as tokens
from sfumato.collect._anonymous import Anonymous
from sfumato.collect._tokens import EXPONENT, Token, TokenKey
from sfumato.errors import InputError, SchemaError

KEY, DIGEST = TokenKey.new(), hashlib.sha256(b"a schema").digest()

# RFC 9474, appendix A: the key of all vectors, and vector A.2, RSABSSA-SHA384-PSSZERO-Deterministic
P = int(
    "e1f4d7a34802e27c7392a3cea32a262a34dc3691bd87f3f310dc7567348893055"
    "9c120fd0410194fb8a0da55bd0b81227e843fdca6692ae80e5a5d414116d4803f"
    "ca7d8c30eaaae57e44a1816ebb5c5b0606c536246c7f11985d731684150b63c9a"
    "3ad9e41b04c0b5b27cb188a692c84696b742a80d3cd00ab891f2457443dadfeba"
    "6d6daf108602be26d7071803c67105a5426838e6889d77e8474b29244cefaf418"
    "e381b312048b457d73419213063c60ee7b0d81820165864fef93523c9635c2221"
    "0956e53a8d96322493ffc58d845368e2416e078e5bcb5d2fd68ae6acfa54f9627"
    "c42e84a9d3f2774017e32ebca06308a12ecc290c7cd1156dcccfb2311",
    16,
)
Q = int(
    "c601a9caea66dc3835827b539db9df6f6f5ae77244692780cd334a006ab353c80"
    "6426b60718c05245650821d39445d3ab591ed10a7339f15d83fe13f6a3dfb20b9"
    "452c6a9b42eaa62a68c970df3cadb2139f804ad8223d56108dfde30ba7d367e9b"
    "0a7a80c4fdba2fd9dde6661fc73fc2947569d2029f2870fc02d8325acf28c9afa"
    "19ecf962daa7916e21afad09eb62fe9f1cf91b77dc879b7974b490d3ebd2e9542"
    "6057f35d0a3c9f45f79ac727ab81a519a8b9285932d9b2e5ccd347e59f3f32ad9"
    "ca359115e7da008ab7406707bd0e8e185a5ed8758b5ba266e8828f8d863ae1338"
    "46304a2936ad7bc7c9803879d2fc4a28e69291d73dbd799f8bc238385",
    16,
)
INVERSE = int(
    "80682c48982407b489d53d1261b19ec8627d02b8cda5336750b8cee332ae260d"
    "e57b02d72609c1e0e9f28e2040fc65b6f02d56dbd6aa9af8fde656f70495dfb7"
    "23ba01173d4707a12fddac628ca29f3e32340bd8f7ddb557cf819f6b01e445ad"
    "96f874ba235584ee71f6581f62d4f43bf03f910f6510deb85e8ef06c7f09d979"
    "4a008be7ff2529f0ebb69decef646387dc767b74939265fec0223aa6d84d2a8a"
    "1cc912d5ca25b4e144ab8f6ba054b54910176d5737a2cff011da431bd5f2a0d2"
    "d66b9e70b39f4b050e45c0d9c16f02deda9ddf2d00f3e4b01037d7029cd49c2d"
    "46a8e1fc2c0c17520af1f4b5e25ba396afc4cd60c494a4c426448b35b49635b3"
    "37cfb08e7c22a39b256dd032c00adddafb51a627f99a0e1704170ac1f1912e49"
    "d9db10ec04c19c58f420212973e0cb329524223a6aa56c7937c5dffdb5d966b6"
    "cd4cbc26f3201dd25c80960a1a111b32947bb78973d269fac7f5186530930ed1"
    "9f68507540eed9e1bab8b00f00d8ca09b3f099aae46180e04e3584bd7ca054df"
    "18a1504b89d1d1675d0966c4ae1407be325cdf623cf13ff13e4a28b594d59e3e"
    "adbadf6136eee7a59d6a444c9eb4e2198e8a974f27a39eb63af2c9af3870488b"
    "8adaad444674f512133ad80b9220e09158521614f1faadfe8505ef57b7df6813"
    "048603f0dd04f4280177a11380fbfc861dbcbd7418d62155248dad5fdec0991f",
    16,
)
TEXT = bytes.fromhex("8f3dc6fb8c4a02f4d6352edf0907822c1210a9b32f9bdda4c45a698c80023aa6b59f8cfec5fdbb36331372ebefedae7d")
BLINDED = bytes.fromhex(
    "982790826556aabe6004467671a864397eea3b95740e9a11c8b80b99ee0cf4db"
    "c50af860bda81b601a2eceaa6943ef104f13325ad0be2e37f42030b3120e87cf"
    "ee8cfe59cde1acfb25485a43275ebe777292e2518181ae531e596f988ff16f45"
    "8daa5a42408939cbe60e7271391a21657276427d195bee6a20054101d4ceb892"
    "ecdea402ea1a866acf0e451a3336f07e7589330d96c3883fd5bc1a829a715b61"
    "8b74a86b2a898764246ad081d4c9f1edb8ab5077e315fde2417ec2dd33cad93e"
    "120340b49be89c18a63e62c6bb289037283d3bf18608be11ee4c823c710b0c6b"
    "89235fed3f03a7b96ddd25a8f54f20dac37ce8905093ad8e066810f354fb1773"
    "236e3d3788ba755de2c9bce8d340078bb1831ddc7314a5018673427ced65cb35"
    "6281aae08b5e6636f3eb2417e09d6ae476a9abcc410bc8c90813d0740e39ae75"
    "efae4c02eed49dbb7aa51258bb71197445d17a6029bf566ba6b36282173af2c4"
    "2e9b9631366f22eb6a19ef1d92bd3ce0631d3a7fb3288195b0ba380a3828d541"
    "1cefd5eba83e52198c001ac9946a333a33d89d4d235fc833239d59837f04eaf0"
    "65e9563659b00c7624a6263b727d8f2c07959ba2bb592e7ff251b8f09c85995f"
    "d2e4474e743586576b518230986b6076b762ae77088a37e4bffd2ef41ae68d6d"
    "4e79205290b4f76c42ef039638c41cdc6fe8af9b429c0dee45b2942e3861da2a"
)
BLIND_SIGNATURE = bytes.fromhex(
    "362ef369f9b8c1487e285514702a7cd6fe03e4a2fb854881f3d3f986b7742a0c"
    "9bfab6562a6cd5ed71c574af67d7e77e71b33420c08ebb0ff37886b858297f95"
    "62fc366066c6d8e77bad1918b04756ba03f5c385d44f06759daf1b7a38b2a642"
    "48dee95d0e3886c8afa1f74afd8ac3c56520d0f3fd206df8e0d257312756803b"
    "09a79d0cc38112592c3aec32de5a9bc3284c5a0a2d0808b102deafa5cc60f04e"
    "3d71c0284cba04f17f88aa8e07d5544fe0265807d515877f79d30ed26d522b9d"
    "9c56597647b0dbca5a69d6418f8d1b51481723f272c2a3d48f6f4fd6beeac357"
    "6c3edb00e8779964548aeab8e004c7c4f8ef9cb6e680e2d2d49792004bb3e697"
    "4fa48f241a361ca449c02bd4c0ad4e66252c55e656f16049908efe59acbafa11"
    "71895dfac64d909808e5420469d622c7253ec1de7522b41634d383bf8786bf88"
    "1cbf1561627f1e62b2d93300ec30ec0f5f0ab32036fce068bc76b0b0c6452079"
    "537f8d7f8dcee4b42bbf2d9ad7499d3835cd93cfc7e8ebea3554ab5241e181e5"
    "d73241b7bebf0a281b63594a35f4993e2b416d60db966b58b648cfcba2c4bee4"
    "c2830aae4a70ff55012480298f549c13b1b2684277bca12f592471b8a9928517"
    "4f1c0ebb38fc80e74a10b3f02ec3e6682ba873f7ff0e1e79718b470927c74ed7"
    "54d4f7c3d9a55e22246e829cdb5a1c6fb2a0a6c896df303063c918bcf5eb0017"
)
SIGNATURE = bytes.fromhex(
    "4454b6983ff01cb28545329f394936efa42ed231e15efbc025fdaca00277acf0"
    "c8e00e3d8b0ecebd35b057b8ebfc14e1a7097368a4abd20b555894ccef3d1b95"
    "28c6bcbda6b95376bef230d0f1feff0c1064c62c60a7ae7431d1fdfa43a81eed"
    "9235e363e1ffa0b2797aba6aad6082fcd285e14fc8b71de6b9c87cb4059c7dc1"
    "e96ae1e63795a1e9af86b9073d1d848aef3eca8a03421bcd116572456b53bcfd"
    "4dabb0a9691f1fabda3ed0ce357aee2cfee5b1a0eb226f69716d4e011d96eede"
    "5e38a9acb531a64336a0d5b0bae3ab085b658692579a376740ff6ce69e89b06f"
    "360520b864e33d82d029c808248a19e18e31f0ecd16fac5cd4870f8d3ebc1c32"
    "c718124152dc905672ab0b7af48bf7d1ac1ff7b9c742549c91275ab105458ae3"
    "7621757add83482bbcf779e777bbd61126e93686635d4766aedf5103cf7978f3"
    "856ccac9e28d21a850dbb03c811128616d315d717be1c2b6254f8509acae8620"
    "42c034530329ce15ca2e2f6b1f5fd59272746e3918c748c0eb810bf76884fa10"
    "fcf749326bbfaa5ba285a0186a22e4f628dbf178d3bb5dc7e165ca73f6a55ecc"
    "14c4f5a26c4693ce5da032264cbec319b12ddb9787d0efa4fcf1e5ccee35ad85"
    "ecd453182df9ed735893f830b570faae8be0f6fe2e571a4e0d927cba4debd368"
    "d3b4fca33ec6251897a137cf75474a32ac8256df5e5ffa518b88b43fb6f63a24"
)


def published_key():
    n, d = P * Q, pow(EXPONENT, -1, math.lcm(P - 1, Q - 1))
    public = rsa.RSAPublicNumbers(EXPONENT, n)
    numbers = rsa.RSAPrivateNumbers(P, Q, d, d % (P - 1), d % (Q - 1), pow(Q, -1, P), public)
    return TokenKey(numbers.private_key())


def test_the_published_vector_is_met_step_by_step():
    key = published_key()
    assert tokens.blinded(TEXT, key.public, pow(INVERSE, -1, key.public)) == BLINDED
    assert key.sign(BLINDED) == BLIND_SIGNATURE
    assert tokens.unblinded(BLIND_SIGNATURE, key.public, INVERSE) == SIGNATURE
    assert tokens.verify(TEXT, key.public, SIGNATURE)
    assert not tokens.verify(TEXT + b"\0", key.public, SIGNATURE)
    assert not tokens.verify(TEXT, key.public, SIGNATURE[:-1] + bytes([SIGNATURE[-1] ^ 1]))


def made(key=KEY, digest=DIGEST):
    token = Token.draw()
    blinded, inverse = token.blind(key.public, digest)
    return token.finished(key.public, digest, key.sign(blinded), inverse)


def test_a_token_is_for_one_schema_and_one_key():
    token = made()
    assert token.is_valid(KEY.public, DIGEST)
    assert not token.is_valid(KEY.public, hashlib.sha256(b"another schema").digest())
    assert not token.is_valid(TokenKey.new().public, DIGEST)
    assert not Token(token.nonce + b"\0", token.signature).is_valid(KEY.public, DIGEST)
    assert not Token(token.nonce, b"\0" + token.signature).is_valid(KEY.public, DIGEST)
    n, size = KEY.public, tokens.size(KEY.public)
    larger = int.from_bytes(token.signature, "big") + n
    assert larger >> 8 * size or not Token(token.nonce, larger.to_bytes(size, "big")).is_valid(n, DIGEST)


def test_what_was_signed_fits_every_token_alike():
    """For any other token there is a factor with which it would have been the same blinded text."""
    one, other = Token.draw(), made()
    blinded, inverse = one.blind(KEY.public, DIGEST)
    signed = int.from_bytes(KEY.sign(blinded), "big")
    factor = signed * pow(int.from_bytes(other.signature, "big"), -1, KEY.public) % KEY.public
    assert tokens.blinded(tokens._text(DIGEST, other.nonce), KEY.public, factor) == blinded
    again, _ = one.blind(KEY.public, DIGEST)
    assert again != blinded
    assert one.finished(KEY.public, DIGEST, KEY.sign(blinded), inverse).is_valid(KEY.public, DIGEST)


def of_small_primes():
    """A modulus of 2,048 bits: the primes from 3 on, and one large prime."""
    small = [n for n in range(3, 3000) if all(n % k for k in range(2, math.isqrt(n) + 1))]
    public = KEY.key.private_numbers().p
    for prime in small:
        if (public * prime).bit_length() > 2040:
            break
        public *= prime
    return next(public * k for k in range(3, 1 << 16, 2) if (public * k).bit_length() == 2048)


def test_a_key_of_small_primes_recognizes_tokens_and_is_refused():
    """What a blinded text has in common with such a key is what its text has: a mark that blinding does not change."""
    public, marks = of_small_primes(), []
    for _ in range(200):
        token = Token.draw()
        text, factor = tokens._text(DIGEST, token.nonce), 0
        while math.gcd(factor, public) != 1:
            factor = secrets.randbelow(public)
        seen = math.gcd(int.from_bytes(tokens.blinded(text, public, factor), "big"), public)
        assert seen == math.gcd(tokens._number(text, public), public), "the attack"
        marks.append(seen)
        if seen == 1:
            token.blind(public, DIGEST)
        else:
            with pytest.raises(InputError, match="shares a factor with a token"):
                token.blind(public, DIGEST)
    assert len(set(marks)) > 50
    assert not tokens.is_key(public)
    with pytest.raises(SchemaError, match="product of large primes"):
        Anonymous(100, f"{public:x}")


def test_a_key_has_no_prime_factor_below_2_to_the_16():
    assert all(tokens._small_primes() % n == 0 for n in (2, 3, 65519, 65521))
    assert all(tokens._small_primes() % n for n in (4, 9, 65537))
    key = KEY.key.private_numbers()
    for prime, good in ((65521, False), (65537, True)):
        public = key.p * key.q * prime
        while public.bit_length() % 8:
            public *= 65537
        assert tokens.is_key(public) is good


def test_a_server_that_signs_something_else_is_noticed():
    token = Token.draw()
    blinded, inverse = token.blind(KEY.public, DIGEST)
    stranger, _ = Token.draw().blind(KEY.public, DIGEST)
    for signed in (KEY.sign(stranger), KEY.sign(blinded)[:-1], bytes(256), blinded):
        with pytest.raises(InputError, match="signature of a token"):
            token.finished(KEY.public, DIGEST, signed, inverse)


@pytest.mark.parametrize("which", ["0", "1", "n", "n + 1", "p"])
def test_odd_numbers_are_not_signed(which):
    own = KEY.key.private_numbers()
    number = {"0": 0, "1": 1, "n": KEY.public, "n + 1": KEY.public + 1, "p": own.p}[which]
    with pytest.raises(InputError, match="blinded token"):
        KEY.sign(number.to_bytes(256, "big"))


def test_a_fault_while_signing_leaves_nothing(monkeypatch):
    blinded, _ = Token.draw().blind(KEY.public, DIGEST)
    monkeypatch.setattr(tokens.secrets, "randbelow", lambda _: 0)
    assert KEY.sign(blinded)
    monkeypatch.setattr(
        tokens, "pow", lambda a, b, c: (pow(a, b, c) + (b == KEY.key.private_numbers().dmp1)) % c, raising=False
    )
    with pytest.raises(InputError, match="multiply"):
        KEY.sign(blinded)


def test_keys_are_kept_in_files_of_their_owner(tmp_path):
    path = tmp_path / "token.key"
    KEY.write(path)
    assert TokenKey.read(path).public == KEY.public
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("none")
    with pytest.raises(InputError, match="token key"):
        TokenKey.read(path)


@pytest.mark.parametrize("bits", [2048, 3072, 4096])
def test_keys_of_every_size_that_a_schema_allows_sign_and_are_read(tmp_path, bits):
    key = TokenKey(rsa.generate_private_key(EXPONENT, bits))
    key.write(tmp_path / "token.key")
    assert TokenKey.read(tmp_path / "token.key").public == key.public == Anonymous(100, f"{key.public:x}").public
    assert made(key).is_valid(key.public, DIGEST)
