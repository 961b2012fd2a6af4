"""`kill -9` of the server of an anonymous survey: no device gets two tokens, no token counts twice, no report is lost.

Devices ask for a token until they have it, and send their report until it is acknowledged, while the server is killed at random
moments. Some lose the answer and ask again, some try to spend their token twice. The seed is printed.
"""

import http.client
import json
import os
import random
import signal
import socket
import threading
import time

import pytest
from devices import SERVER_KEY, FakeDevice, label_schema
from preloaded import started

from sfumato.collect._schema import Schema
from sfumato.collect._store import Store
from sfumato.collect._tokens import Token, TokenKey
from sfumato.collect._wire import encode

KEY = TokenKey.new()
USUAL = label_schema(opens="2020-01-01T00:00:00Z", closes="2120-01-01T00:00:00Z").to_dict()
ASKED = {name: value for name, value in USUAL.items() if name not in ("randomizers", "totals")}
SCHEMA = Schema.from_dict({**ASKED, "upload": "anonymous", "least_reports": 100, "token_key": f"{KEY.public:x}"})
PATIENCE = 120


class Server:
    """A server process that can be killed and started again on the same store and port."""

    def __init__(self, folder):
        self.folder, self.store = folder, str(folder / "reports.sqlite")
        (folder / "schema.json").write_text(SCHEMA.text)
        SERVER_KEY.write(folder / "server.key")
        KEY.write(folder / "token.key")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]

    def start(self):
        log = self.folder / "server.log"
        self.process = started(self.folder, log, "collect", "serve", "schema.json", "--port", str(self.port))
        deadline = time.monotonic() + PATIENCE
        while self.ask("GET", "/status", b"")[0] != 200:
            assert self.process.is_alive(), log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def ask(self, method, path, body):
        """Return status and body of an answer; 0 where there was none."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def insist(self, path, body):
        """Send the same bytes until they are answered for good."""
        while True:
            status, said = self.ask("POST", path, body)
            if status not in (0, 503):
                return status, said
            time.sleep(0.01)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join(PATIENCE)


def asked(device, token):
    text, inverse = token.blind(KEY.public, SCHEMA.digest)
    signature = device.keys.sign_asked(SCHEMA.digest, text)
    return json.dumps({"user": device.user, "blinded": text.hex(), "signature": signature.hex()}).encode(), inverse


def answer(server, user, acknowledged, failures):
    """One device enrols, fetches its token, and reports; then it tries for a second token and a second report."""
    try:
        device = FakeDevice(user, SCHEMA)
        assert server.insist("/users", json.dumps(device.code).encode())[0] in (200, 201)
        token = Token.draw()
        body, inverse = asked(device, token)
        status, said = server.insist("/tokens", body)
        assert status in (200, 201)
        assert server.insist("/tokens", body) == (200, said)
        token = token.finished(KEY.public, SCHEMA.digest, bytes.fromhex(json.loads(said)["signed"]), inverse)
        message, proof = encode(SCHEMA, token.name, {"label": (0,)}), token.nonce + token.signature
        assert server.insist("/reports", message + proof)[0] in (200, 201)
        acknowledged[token.name] = message
        other = encode(SCHEMA, token.name, {"label": (1,)})
        assert server.insist("/reports", other + proof)[0] == 409
        assert server.insist("/tokens", asked(device, Token.draw())[0])[0] == 409
    except BaseException as error:
        failures.append(error)
        raise


@pytest.mark.parametrize(
    ("kills", "users"), [(2, 60), pytest.param(200, 4000, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_one_token_and_one_report_a_device_outlive_kills(tmp_path, kills, users):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    moments, server, acknowledged, failures = random.Random(seed), Server(tmp_path), {}, []
    server.start()

    def work(place):
        for number in range(place, users, 4):
            answer(server, f"user-{number}", acknowledged, failures)

    threads = [threading.Thread(target=work, args=(place,), daemon=True) for place in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(kills):
        time.sleep(moments.uniform(0, 0.5))
        server.kill()
        store = Store.open(server.store)
        known = dict(acknowledged)
        with store._database.reading() as connection:
            rows = dict(connection.exec_driver_sql('select "user", message from reports').all())
        assert {name.encode(): message for name, message in known.items()}.items() <= rows.items()
        store.dispose()
        server.start()
    for thread in threads:
        thread.join()
    assert failures == []
    store = Store.open(server.store)
    counts = store.counts()
    with store._database.reading() as connection:
        tokens = connection.exec_driver_sql("select count(*) from tokens").scalar_one()
        alerts = dict(connection.exec_driver_sql("select kind, count(*) from alerts group by kind").all())
    store.dispose()
    server.kill()
    assert (counts.users, counts.reports, tokens, len(acknowledged)) == (users,) * 4
    assert alerts == {"token": users, "report": users}
    print(f"{kills} kills: {users:,} devices with one token and one report each; as many second ones refused")
