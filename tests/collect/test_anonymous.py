"""An anonymous survey: one token a device, one report a token, and nothing that joins the two."""

import json
import sqlite3

import httpx
import pytest
from devices import BEARER, OPEN, SERVER_KEY, TOKEN, FakeDevice, client_of, label_schema

from sfumato.collect import _tokens as tokens
from sfumato.collect._client import Device
from sfumato.collect._connection import Connection, RefusedError
from sfumato.collect._drawing import Values
from sfumato.collect._schema import Schema
from sfumato.collect._server import create_app
from sfumato.collect._simulate_anonymous import AnonymousDevices
from sfumato.collect._spending import fetch_token
from sfumato.collect._store import Store
from sfumato.collect._tokens import Token, TokenKey
from sfumato.collect._wire import WireError, decode, encode
from sfumato.errors import CollectionError, DataError, InputError, SchemaError

KEY = TokenKey.new()
FIELDS = {"upload": "anonymous", "least_reports": 100, "token_key": f"{KEY.public:x}"}
LABEL = {"classes": ["a", "b", "c", "d"], "epsilon": 1.0, "mechanism": "randomized-response"}
FEATURES = {"names": ["x", "y"], "epsilon": 1.0, "mechanism": "collision"}


def survey(**changed) -> Schema:
    known = {**label_schema(opens="2020-01-01T00:00:00Z", closes="2120-01-01T00:00:00Z").to_dict()}
    questions = {name: value for name, value in known.items() if name not in ("randomizers", "totals")}
    return Schema.from_dict({**questions, **FIELDS, "label": LABEL, **changed})


SCHEMA = survey()


@pytest.fixture
def anonymous(tmp_path):
    """The store of an anonymous survey."""
    made = Store.create(str(tmp_path / "reports.sqlite"), SCHEMA)
    yield made
    made.dispose()


def client(store):
    return client_of(store, token_key=KEY)


def enrolled(http, user="ada"):
    device = FakeDevice(user, SCHEMA)
    code = SERVER_KEY.code(SCHEMA, user)
    body = {
        "user": user,
        "sign_key": device.keys.sign_key.hex(),
        "agree_key": device.keys.agree_key.hex(),
        "code": code,
    }
    assert http.post("/users", json=body).status_code in (200, 201)
    return device


def request(device, token=None, **changed):
    text, inverse = (token or Token.draw()).blind(KEY.public, SCHEMA.digest)
    signature = device.keys.sign_asked(SCHEMA.digest, text)
    return {"user": device.user, "blinded": text.hex(), "signature": signature.hex(), **changed}, inverse


def fetched(http, device):
    token = Token.draw()
    body, inverse = request(device, token)
    answer = http.post("/tokens", json=body)
    assert answer.status_code == 201
    return token.finished(KEY.public, SCHEMA.digest, bytes.fromhex(answer.json()["signed"]), inverse)


def upload(token, label=0, schema=SCHEMA):
    return encode(schema, token.name, {"label": (label,)}) + token.nonce + token.signature


def test_a_schema_says_it_and_one_that_does_not_is_as_before():
    assert Schema.from_json(SCHEMA.text) == SCHEMA
    assert SCHEMA.anonymous.least_reports == 100
    assert "without your name" in SCHEMA.statement()
    usual = label_schema()
    assert usual.anonymous is None
    assert "upload" not in usual.to_dict()
    assert "without your name" not in usual.statement()


@pytest.mark.parametrize(
    "changed",
    [{"upload": "signed"}, {"least_reports": 99}, {"least_reports": 1.5}, {"token_key": "12"}, {"token_key": "-" + "f" * 511},
     {"token_key": "F" * 512}, {"label": None, "links": {"users": 3, "roster": "0" * 64, "epsilon": 1.0}}],
)  # fmt: skip
def test_odd_schemas_are_refused(changed):
    given = {name: value for name, value in SCHEMA.to_dict().items() if name not in ("randomizers", "totals")}
    given = {name: value for name, value in {**given, **changed}.items() if value is not None}
    with pytest.raises(SchemaError):
        Schema.from_dict(given)
    for name in FIELDS:
        with pytest.raises(SchemaError):
            Schema.from_dict(
                {"upload": "anonymous"} | {one: given[one] for one in given if one not in FIELDS} | {name: 0}
            )


def test_a_report_answers_everything_under_the_name_of_a_token():
    both = survey(features=FEATURES)
    name = "0" * 64
    whole = encode(both, name, {"features": (0,), "label": (1,)})
    assert decode(both, whole).user == name
    for odd in (encode(both, name, {"label": (1,)}), encode(both, "ada", {"features": (0,), "label": (1,)})):
        with pytest.raises(WireError, match="all questions"):
            decode(both, odd)


def test_each_device_gets_one_token_and_the_same_one_again(anonymous):
    with client(anonymous) as http:
        ada = enrolled(http)
        body, _ = request(ada)
        first = http.post("/tokens", json=body)
        assert (first.status_code, http.post("/tokens", json=body).status_code) == (201, 200)
        assert http.post("/tokens", json=body).json() == first.json()
        other, _ = request(ada)
        assert http.post("/tokens", json=other).status_code == 409
        (alert,) = http.get("/counts", headers=BEARER).json()["alerts"]
        assert (alert["kind"], alert["user"]) == ("token", "ada")
        assert "another token" in http.get("/", headers=BEARER).text


def test_who_has_no_key_gets_the_answer_of_strangers(anonymous):
    with client(anonymous) as http:
        ada, eve = enrolled(http), FakeDevice("eve", SCHEMA)
        stolen, _ = request(eve, user="ada")
        unknown, _ = request(eve)
        answers = [http.post("/tokens", json=body) for body in (stolen, unknown)]
        assert [one.status_code for one in answers] == [403, 403]
        assert answers[0].content == answers[1].content
        for odd in (
            {},
            [],
            {"user": "ada"},
            {**stolen, "user": 1},
            {**stolen, "blinded": "zz"},
            {**stolen, "user": " "},
        ):
            assert http.post("/tokens", json=odd).status_code == 422
        text = bytes(256)
        zero = {"user": "ada", "blinded": text.hex(), "signature": ada.keys.sign_asked(SCHEMA.digest, text).hex()}
        assert http.post("/tokens", json=zero).status_code == 422


def test_a_token_is_spent_once_and_the_same_bytes_are_taken_again(anonymous):
    with client(anonymous) as http:
        token = fetched(http, enrolled(http))
        assert [http.post("/reports", content=upload(token)).status_code for _ in range(2)] == [201, 200]
        assert http.post("/reports", content=upload(token, label=1)).status_code == 409
        assert http.get("/counts", headers=BEARER).json()["reports"] == 1
        with anonymous._database.reading() as connection:
            (row,) = connection.exec_driver_sql("select * from reports").all()
        assert row.message == upload(token)[: len(row.message)]
        assert row.received_at == 0.0


def test_only_tokens_of_this_survey_are_taken(anonymous):
    with client(anonymous) as http:
        token = fetched(http, enrolled(http))
        spent = upload(token)
        forged = Token(token.nonce, bytes(256))
        another = Token(Token.draw().nonce, token.signature)
        foreign = TokenKey.new()
        nonce = Token.draw()
        text, inverse = nonce.blind(foreign.public, SCHEMA.digest)
        strange = nonce.finished(foreign.public, SCHEMA.digest, foreign.sign(text), inverse)
        for odd in (forged, another, strange):
            assert http.post("/reports", content=upload(odd)).status_code == 403
        stolen_name = encode(SCHEMA, "0" * 64, {"label": (0,)}) + token.nonce + token.signature
        assert http.post("/reports", content=stolen_name).status_code == 403
        assert http.post("/reports", content=spent[:-1]).status_code in (400, 403)
        assert http.post("/reports", content=b"").status_code == 400
        ada = FakeDevice("ada", SCHEMA)
        named = encode(SCHEMA, "0" * 64, {"label": (0,)})
        assert http.post("/reports", content=named + ada.keys.sign(named)).status_code in (400, 403)
        for path in ("/batches", "/withdrawals"):
            assert http.post(path, content=spent).status_code == 400
        assert http.get("/counts", headers=BEARER).json()["reports"] == 0


def test_usual_collections_have_no_tokens(store):
    with client_of(store) as http:
        assert http.post("/tokens", json={}).status_code == 400
    with pytest.raises(InputError, match="token key"):
        create_app(store.schema, store, SERVER_KEY, TOKEN, token_key=KEY)


def test_a_survey_needs_its_own_token_key(anonymous):
    for key in (None, TokenKey.new()):
        with pytest.raises(InputError, match="token key"):
            create_app(SCHEMA, anonymous, SERVER_KEY, TOKEN, token_key=key)


def fill(store, count):
    """Reports under names that tokens could have."""
    from sfumato.collect._store import Upload

    names = [Token.draw().name for _ in range(count)]
    store.add([Upload(name, encode(SCHEMA, name, {"label": (i % 4,)}), b"") for i, name in enumerate(names)])
    return names


def test_nothing_is_computed_before_there_are_enough_and_the_batch_is_closed(anonymous):
    names = fill(anonymous, 99)
    for act in (
        anonymous.close,
        anonymous.closed,
        lambda: list(anonymous.pieces()),
        lambda: anonymous.stream().__enter__(),
    ):
        with pytest.raises(DataError):
            act()
    with client(anonymous) as http:
        refused = http.post("/close", headers=BEARER)
        assert (refused.status_code, "100 anonymous reports" in refused.json()["detail"]) == (409, True)
        assert http.get("/counts", headers=BEARER).json()["hours"] == []
        names += fill(anonymous, 1)
        assert http.post("/close", headers=BEARER).status_code == 200
    assert [decode(SCHEMA, one).user for one in anonymous.messages()] == sorted(names)


def test_rows_have_no_numbers_in_the_order_of_their_coming(anonymous):
    fill(anonymous, 3)
    with sqlite3.connect(anonymous.name) as file, pytest.raises(sqlite3.OperationalError, match="rowid"):
        file.execute("select rowid from reports")


def test_a_code_whose_token_is_out_is_not_revoked(anonymous):
    with client(anonymous) as http:
        fetched(http, enrolled(http))
        enrolled(http, "bob")
        with pytest.raises(DataError, match="token"):
            anonymous.revoke("ada", anonymous.seen("ada"))
        assert anonymous.revoke("bob", anonymous.seen("bob")) == 1
        (name,) = fill(anonymous, 1)
        for act in (anonymous.revoke, anonymous.withdraw):
            with pytest.raises(DataError, match="to have"):
                act(name, anonymous.seen(name))
        ben = FakeDevice("bob", SCHEMA)
        assert http.post("/tokens", json=request(ben)[0]).status_code == 403


class Cut(Connection):
    """A connection that fails at one request, before or after the server has answered it, and keeps what was sent."""

    def __init__(self, http, fail=None, after=False):
        def handle(asked):
            answer = http.request(asked.method, asked.url.path, content=asked.content, headers=dict(asked.headers))
            return httpx.Response(answer.status_code, content=answer.content)

        super().__init__("http://127.0.0.1", transport=httpx.MockTransport(handle))
        self.fail, self.after, self.sent = fail, after, []

    def post(self, path, content, kind="application/octet-stream"):
        self.sent.append((path, content))
        cut = path == self.fail
        if cut and not self.after:
            raise CollectionError("cut")
        answer = super().post(path, content, kind)
        if cut:
            raise CollectionError("cut")
        return answer


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("fail", ["/tokens", "/reports"])
def test_a_device_that_is_stopped_goes_on_with_the_same_bytes(anonymous, tmp_path, fail, after):
    device = Device.create(tmp_path / "ada", "ada", 5.0)
    code = SERVER_KEY.code(SCHEMA, "ada")

    def whole(connection):
        device.enrol(SCHEMA, connection, code)
        fetch_token(device.folder, device.user, device.keys, SCHEMA, connection)
        device.report(SCHEMA, {"label": "a"})
        return device.send(SCHEMA, connection)

    with client(anonymous) as http:
        cut, again = Cut(http, fail, after), Cut(http)
        with pytest.raises(CollectionError, match="cut"):
            whole(cut)
        assert whole(again) == (after and fail == "/reports")
        assert {content for path, content in cut.sent if path == fail} == {c for path, c in again.sent if path == fail}
        assert whole(Cut(http)), "the server has it"
        assert http.get("/counts", headers=BEARER).json()["reports"] == 1
    assert device.spent() == (1.0, 0.0)
    assert (tmp_path / "ada" / "tokens.json").stat().st_mode & 0o777 == 0o600


def test_what_is_sent_holds_nothing_of_the_device(anonymous, tmp_path):
    name = "ada-of-the-analytical-engine"  # no bytes that are there by chance
    device = Device.create(tmp_path / "ada", name, 5.0)
    code = SERVER_KEY.code(SCHEMA, name)
    with client(anonymous) as http:
        connection, apart = Cut(http), Cut(http)
        device.enrol(SCHEMA, connection, code)
        with pytest.raises(InputError, match="token"):
            device.report(SCHEMA, {"label": "a"})
        assert device.spent() == (0.0, 0.0)
        fetch_token(device.folder, device.user, device.keys, SCHEMA, connection)
        device.report(SCHEMA, {"label": "a"})
        device.send(SCHEMA, apart)
        with pytest.raises(InputError, match="anonymous"):
            device.take_back(SCHEMA, connection)
    ((_, sent),) = apart.sent
    secret = device.keys.sign_key, device.keys.agree_key, name.encode(), code.encode(), bytes.fromhex(code)
    assert not any(one in sent for one in secret)
    asked = json.loads(next(content for path, content in connection.sent if path == "/tokens"))
    assert bytes.fromhex(asked["blinded"]) not in sent
    assert bytes.fromhex(asked["signature"]) not in sent
    with pytest.raises(InputError, match="leaves an answer out"):
        device.check(survey(collection="other"), {})


def test_a_device_without_its_tokens_gets_no_second_one(anonymous, tmp_path):
    device = Device.create(tmp_path / "ada", "ada", 5.0)
    with client(anonymous) as http:
        connection = Cut(http)
        device.enrol(SCHEMA, connection, SERVER_KEY.code(SCHEMA, "ada"))
        fetch_token(device.folder, device.user, device.keys, SCHEMA, connection)
        (tmp_path / "ada" / "tokens.json").unlink()
        with pytest.raises(RefusedError, match="Another token"):
            fetch_token(device.folder, device.user, device.keys, SCHEMA, connection)
        (tmp_path / "ada" / "tokens.json").write_text("[]")
        with pytest.raises(InputError, match=r"tokens\.json"):
            fetch_token(device.folder, device.user, device.keys, SCHEMA, connection)


def test_a_simulation_goes_on_after_any_stop(anonymous, tmp_path):
    users = tuple(f"u{i}" for i in range(7))
    codes = {user: SERVER_KEY.code(SCHEMA, user) for user in users}
    values = [Values(users, labels=(0, 1, 2, 3, 0, 1, 2))]

    def run(connection):
        with AnonymousDevices(tmp_path / "devices.sqlite", SCHEMA) as devices:
            devices.join(users)
            devices.enrol(connection, codes)
            devices.fetch(connection)
            devices.draw(values, codes)
            return devices.send(connection)

    with client(anonymous) as http:
        for fail in ("/tokens", "/reports"):
            for after in (False, True):
                with pytest.raises(CollectionError, match="cut"):
                    run(Cut(http, fail, after))
        assert run(Cut(http)).accepted == 7
        assert run(Cut(http)).repeated == 7
        counts = http.get("/counts", headers=BEARER).json()
    assert (counts["reports"], counts["users"], counts["alerts"]) == (7, 7, [])


def test_the_clock_of_the_survey_holds_for_tokens(anonymous):
    with client_of(anonymous, token_key=KEY, clock=lambda: OPEN + 1e10) as http:
        assert http.post("/tokens", json=request(FakeDevice("ada", SCHEMA))[0]).status_code == 410
    assert tokens.is_key(KEY.public)
