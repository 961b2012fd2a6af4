"""`kill -9` of a server, or of devices, at random moments: every acknowledged report is in the store exactly once, and no other.

Devices enrol and send again until they have an answer. Three of four send alone, the others in batches, while somebody sends
reports in their names. After each kill the store is read as the server left it. The seed is printed.
"""

import http.client
import json
import os
import random
import signal
import socket
import threading
import time
from functools import partial
from itertools import count

import pytest
from devices import SERVER_KEY, FakeDevice, label_schema
from preloaded import started

from sfumato.collect._store import Store
from sfumato.collect._wire import decode

SCHEMA = label_schema(opens="2020-01-01T00:00:00Z", closes="2120-01-01T00:00:00Z")
BATCH = 20
THIEF = FakeDevice("thief", SCHEMA)
PATIENCE = 120


class Server:
    """A server process that can be killed and started again on the same store and port."""

    def __init__(self, folder, where=None):
        self.folder = folder
        (folder / "schema.json").write_text(SCHEMA.text)
        SERVER_KEY.write(folder / "server.key")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.store = where or str(folder / "reports.sqlite")

    def start(self):
        words = ["collect", "serve", "schema.json", "--store", self.store, "--port", str(self.port)]
        self.process = started(self.folder, self.folder / "server.log", *words)
        deadline = time.monotonic() + PATIENCE
        while self.ask("GET", "/status", b"")[0] != 200:
            assert self.process.is_alive(), (self.folder / "server.log").read_text()
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

    def end(self, how):
        os.kill(self.process.pid, how)
        self.process.join(PATIENCE)
        return self.process.exitcode


class Crowd:
    """Devices that are made, enrolled and heard until somebody says stop. One part in four sends in batches."""

    def __init__(self, server):
        self.server, self.stop = server, threading.Event()
        self.sent, self.acknowledged, self.forged, self.failures = {}, {}, 0, []
        works = [*(partial(self.report, place) for place in range(4)), self.forge]
        self.threads = [threading.Thread(target=self.guarded, args=(work,), daemon=True) for work in works]

    def guarded(self, work):
        try:
            for number in count():
                if self.stop.is_set():
                    return
                work(number)
        except BaseException as error:
            self.failures.append(error)
            raise

    def insist(self, path, body):
        """Send the same bytes until they are acknowledged."""
        while True:
            status, said = self.server.ask("POST", path, body)
            if status in (200, 201):
                return json.loads(said)
            assert status in (0, 503), (status, said)
            time.sleep(0.01)

    def report(self, place, number):
        in_batch = place == 3
        group = [FakeDevice(f"user-{place}-{number}-{one}", SCHEMA) for one in range(BATCH if in_batch else 1)]
        codes = [one.code for one in group]
        listed = self.insist("/users", json.dumps(codes if in_batch else codes[0]).encode())
        assert not in_batch or {one["status"] for one in listed} <= {200, 201}
        self.sent.update((one.user, one.message()) for one in group)
        if in_batch:
            assert self.insist("/batches", group[0].batch(*(one.coded() for one in group)))["refused"] == []
        else:
            self.insist("/reports", group[0].body())
        self.acknowledged.update((one.user, one.message()) for one in group)

    def forge(self, number):
        """Another report of a user who may have sent one, with the signature of somebody else."""
        one = FakeDevice(f"user-{number % 3}-{number // 2}-0", SCHEMA)
        status, _ = self.server.ask("POST", "/reports", one.message(1) + THIEF.keys.sign(one.message(1)))
        assert status in (0, 403, 503), status
        self.forged += status == 403
        time.sleep(0.005)


def held(server):
    store = Store.open(server.store)
    messages, counts = store.messages(), store.counts()
    store.dispose()
    assert counts.reports == len(messages) == len(set(messages))
    assert counts.alerts == ()
    return set(messages)


@pytest.mark.parametrize("kills", [2, pytest.param(400, marks=pytest.mark.soak)], ids=["few", "many"])
def test_acknowledged_reports_outlive_kills(tmp_path, where, kills):
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    moments, server = random.Random(seed), Server(tmp_path, where)
    server.start()
    crowd = Crowd(server)
    for thread in crowd.threads:
        thread.start()
    for _ in range(kills):
        time.sleep(moments.uniform(0, 0.5))
        server.end(signal.SIGKILL)
        known = set(dict(crowd.acknowledged).values())
        assert known <= held(server) <= set(dict(crowd.sent).values())
        server.start()
    crowd.stop.set()
    for thread in crowd.threads:
        thread.join()
    assert server.end(signal.SIGTERM) == 0
    assert crowd.failures == []
    assert crowd.acknowledged == crowd.sent
    assert held(server) == set(crowd.acknowledged.values())
    print(
        f"{kills} kills: {len(crowd.acknowledged):,} reports acknowledged and stored, {crowd.forged:,} forged refused"
    )


def test_server_that_is_told_to_stop_answers_what_is_under_way(tmp_path):
    server, stop = Server(tmp_path), threading.Event()
    devices = [FakeDevice(f"user-{place}", SCHEMA) for place in range(400)]
    Store.create(server.store, SCHEMA).enrol([one.enrolment for one in devices])
    server.start()
    acknowledged = {}

    def send(place):
        for one in devices[place::4]:
            if stop.is_set():
                return
            status, _ = server.ask("POST", "/reports", one.body())
            if status == 201:
                acknowledged[one.user] = one.message()

    threads = [threading.Thread(target=send, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 20:
        time.sleep(0.01)
    assert server.end(signal.SIGINT) == 0
    stop.set()
    for thread in threads:
        thread.join()
    assert held(server) == set(acknowledged.values())
    log = (tmp_path / "server.log").read_text()
    assert "Stopped. All acknowledged reports are in the store." in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    ("kills", "users"), [(3, 300), pytest.param(200, 20_000, marks=pytest.mark.soak)], ids=["few", "many"]
)
def test_killed_devices_never_send_two_reports(tmp_path, kills, users):
    """One process has all devices. The server would have an alert for any report but the first one of a user."""
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    moments, server, names = random.Random(seed), Server(tmp_path), [f"user-{place}" for place in range(users)]
    codes = [f"{name},{SERVER_KEY.code(SCHEMA, name)}" for name in names]
    (tmp_path / "codes.csv").write_text("\n".join(["user,code", *codes]) + "\n")
    (tmp_path / "values.csv").write_text("".join(f"{row}\n" for row in ["user,label", *(f"{one},a" for one in names)]))
    server.start()
    address = f"http://127.0.0.1:{server.port}"
    files = ["--codes", "codes.csv", "--values", "values.csv", "--batch", "1"]
    words = ["collect", "simulate", "schema.json", "--server", address, *files]
    for _ in range(kills):
        process = started(tmp_path, tmp_path / "simulate.log", *words)
        process.join(moments.uniform(0, 0.5))
        process.kill()
        process.join()
    process = started(tmp_path, tmp_path / "simulate.log", *words)
    process.join(PATIENCE)
    assert process.exitcode == 0
    assert server.end(signal.SIGTERM) == 0
    assert {decode(SCHEMA, message).user for message in held(server)} == set(names)
