"""The desk of tokens of an anonymous survey against users and servers that do not follow the protocol."""

import pytest
from devices import client_of
from test_anonymous import KEY, SCHEMA, anonymous, client, enrolled, request, survey, upload  # noqa: F401

from sfumato.collect._store import Store
from sfumato.collect._tokens import Token, TokenKey
from sfumato.errors import InputError


@pytest.mark.parametrize("apart", [True, False])
def test_a_desk_signs_for_its_own_survey_alone_if_each_has_its_key(anonymous, tmp_path, apart):  # noqa: F811
    """A desk is asked for a token of another survey. With one key for both it would give one: so `init` gives each its own."""
    own = TokenKey.new() if apart else KEY
    other = survey(collection="other", token_key=f"{own.public:x}")
    there, token, text = Store.create(str(tmp_path / "other.sqlite"), other), Token.draw(), bytes(1)
    with client(anonymous) as here, client_of(there, token_key=own) as http:
        ada = enrolled(here)
        while int.from_bytes(text, "big") < 2 or int.from_bytes(text, "big") >= KEY.public:
            text, inverse = token.blind(own.public, other.digest)
        signature = ada.keys.sign_asked(SCHEMA.digest, text).hex()
        answer = here.post("/tokens", json={"user": "ada", "blinded": text.hex(), "signature": signature})
        assert answer.status_code == 201
        signed = bytes.fromhex(answer.json()["signed"])
        if apart:
            with pytest.raises(InputError, match="signature of a token"):
                token.finished(own.public, other.digest, signed, inverse)
        else:
            token = token.finished(own.public, other.digest, signed, inverse)
            assert http.post("/reports", content=upload(token, schema=other)).status_code == 201
    there.dispose()


def test_a_malformed_request_takes_no_token_from_its_user(anonymous):  # noqa: F811
    p, n = KEY.key.private_numbers().p, KEY.public
    with client(anonymous) as http:
        ada = enrolled(http)
        for number, length in ((0, 256), (1, 256), (n, 256), (p, 256), (7, 255), (7, 257)):
            text = number.to_bytes(length, "big")
            signature = ada.keys.sign_asked(SCHEMA.digest, text).hex()
            answer = http.post("/tokens", json={"user": "ada", "blinded": text.hex(), "signature": signature})
            assert (answer.status_code, "blinded token" in answer.json()["detail"]) == (422, True)
        assert http.post("/tokens", json=request(ada)[0]).status_code == 201
