"""Mutated requests to both servers and mutated files of devices: no answer of 500, no traceback, and memory that stays bounded.

`pytest -m soak tests/collect/test_fuzz.py -s` sends a million, to servers in processes of their own.
"""

import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from devices import SERVER_KEY, FakeDevice, label_schema
from http_messages import Mutator
from preloaded import started

from sfumato.collect._client import Device
from sfumato.collect._drawing import oddities
from sfumato.collect._folder import keep_code
from sfumato.collect._keys import mac
from sfumato.collect._schema import Schema
from sfumato.collect._tables import read_answers
from sfumato.collect._wire import decode
from sfumato.errors import SfumatoError
from sfumato.record.ledger import canonical_json, chained

SCHEMA = label_schema(opens="2020-01-01T00:00:00Z", closes="2120-01-01T00:00:00Z")
PATIENCE, THREADS = 60, 4
SOAK = pytest.mark.soak
MESSAGES = int(os.environ.get("SFUMATO_SOAK_MESSAGES", 1_000_000))
JSON, TOKEN = (b"Content-Type: application/json",), b"Authorization: Bearer "


class Talk:
    """A client that keeps its connection as long as the server does."""

    def __init__(self, port, place):
        self.port, self.place, self.kept, self.statuses = port, place, None, Counter()

    def connect(self):
        self.place = self.place % 250 + 1  # ports of one address would run out
        made = socket.create_connection(("127.0.0.1", self.port), PATIENCE, (f"127.0.1.{self.place}", 0))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def whole(self, said):
        """Send a request of the right form, and read its answer."""
        for _ in range(3):  # the server may have ended a connection that waited
            self.kept = self.kept or self.connect()
            try:
                self.kept.sendall(said)
                answer = http.client.HTTPResponse(self.kept)
                answer.begin()
                answer.read()
            except (OSError, http.client.HTTPException):
                self.close()
                continue
            self.statuses[answer.status] += 1
            if answer.will_close:
                self.close()
            return
        raise AssertionError(f"no answer to {said[:200]!r}")

    def broken(self, said):
        """Send anything, and read whatever comes."""
        with self.connect() as connection, suppress(ConnectionError):
            connection.sendall(said)
            connection.settimeout(0.004)
            heard = b""
            with suppress(TimeoutError):
                heard = connection.recv(1 << 16)
            connection.settimeout(PATIENCE)
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)
            while block := connection.recv(1 << 16):
                heard += block
            self.statuses.update(int(one) for one in re.findall(rb"^HTTP/1\.1 (\d+)", heard))

    def close(self):
        if self.kept is not None:
            self.kept.close()
            self.kept = None


def bombard(port, requests, count, seed):
    """Send so many mutated requests over a few connections at once, and count the answers by status."""
    talks, failures = [Talk(port, 60 * place) for place in range(THREADS)], []

    def run(place):
        mutator = Mutator(requests, f"{seed} {place}")
        try:
            for _ in range(count // THREADS):
                said, whole = mutator.next()
                (talks[place].whole if whole else talks[place].broken)(said)
        except BaseException as error:
            failures.append(error)
            raise
        finally:
            talks[place].close()

    threads = [threading.Thread(target=run, args=(place,)) for place in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    return sum((one.statuses for one in talks), Counter())


def signed(device, bend):
    message = device.message()[:38] + bend(device.message()[38:])
    return message + device.keys.sign(message)


def batched(device, others, bend):
    """A batch that its sender signed, of messages that were changed after or before they got their codes."""
    changed = [(bend(message), code) for message, code in others[1:]]
    own = bend(device.message())
    secret = device.keys.mac_key(SERVER_KEY.public, device.user)
    return device.batch((own, mac(secret, own)), *changed)


def collect_requests(token):
    """Requests of devices of whom half are enrolled, batches, and what an operator reads. None of them closes the collection."""
    ours = [FakeDevice(f"user-{place}", SCHEMA) for place in range(12)]
    requests = [(b"POST", b"/users", json.dumps(one.code).encode(), JSON) for one in ours[:6]]
    requests += [
        (b"POST", b"/users", json.dumps([one.code for one in ours[:place]]).encode(), JSON) for place in (2, 5)
    ]
    for one, count in zip(ours, (1, 3, 6, 12) * 3, strict=True):
        requests += [(b"POST", b"/reports", body, ()) for body in (one.body(), partial(signed, one))]
        others = [other.coded() for other in ours[:count]]
        requests += [(b"POST", b"/batches", body, ()) for body in (one.batch(*others), partial(batched, one, others))]
    plain = [b"/schema", b"/status", b"/healthz", b"/readyz", b"/docs", b"/openapi.json", b"/nowhere"]
    secret = [b"/counts", b"/metrics", b"/", b"/export"]
    requests += [(b"GET", path, b"", ()) for path in plain + secret]
    requests += [(b"GET", path, b"", (TOKEN + token,)) for path in secret]
    return [*requests, (b"POST", b"/close", b"", (TOKEN + b"x" * 64,))]


def serve_requests(nodes):
    """Requests for one prediction and for many."""
    many = [{"nodes": nodes[:count]} for count in (1, 2, len(nodes))]
    requests = [(b"POST", b"/predictions", json.dumps(one).encode(), JSON) for one in many * 4]
    requests += [(b"GET", b"/predictions/" + one.encode(), b"", ()) for one in nodes[:8]]
    requests += [(b"GET", b"/predictions/" + one.encode(), b"", (TOKEN + b"x" * 32,)) for one in nodes[:4]]
    return requests + [
        (b"GET", one, b"", ()) for one in (b"/run", b"/docs", b"/openapi.json", b"/healthz", b"/metrics")
    ]


def memory(process, what="VmRSS"):
    """MiB that a process has, or (``VmHWM``) had at most."""
    return int(re.search(rf"{what}:\s+(\d+)", Path(f"/proc/{process}/status").read_text())[1]) // 1024


class Process:
    """A server process with its log."""

    def __init__(self, folder, *words):
        self.log = folder / "server.log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.log.touch()
        self.process = started(folder, self.log, *words, "--port", str(self.port))
        deadline = time.monotonic() + PATIENCE
        while b"Ctrl-C" not in self.log.read_bytes():
            assert self.process.is_alive(), self.log.read_text()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def memory(self, what="VmRSS"):
        return memory(self.process.pid, what)

    def __enter__(self):
        return self

    def __exit__(self, *failed):
        self.process.terminate()
        self.process.join(PATIENCE)
        assert self.process.exitcode == 0 or failed[0]
        assert self.faults() == []

    def faults(self):
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [one for one in lines if "error" in one or one["level"] == "error"]


@contextmanager
def collecting(folder):
    (folder / "schema.json").write_text(SCHEMA.text)
    SERVER_KEY.write(folder / "server.key")
    with Process(folder, "collect", "serve", "schema.json") as server:
        yield server, collect_requests((folder / "admin.token").read_bytes().strip())


@contextmanager
def predicting(folder):
    rows = [f"n{place},{place % 3},{'ab'[place % 2]}" for place in range(60)]
    (folder / "nodes.csv").write_text("\n".join(["id,one,label", *rows]) + "\n")
    links = [f"n{place},n{(place + step) % 60}" for place in range(60) for step in (2, 4, 5)]
    (folder / "edges.csv").write_text("\n".join(["from,to", *links]) + "\n")
    asked = "--nodes nodes.csv --edges edges.csv --label label --unit edge --epsilon 4 --delta 1e-5 --assume-public --out run"
    subprocess.run(
        [sys.executable, "-m", "sfumato", "train", "gap", *asked.split()], cwd=folder, check=True, capture_output=True
    )
    with Process(folder, "serve", "run") as server:
        yield server, serve_requests([row.split(",")[0] for row in rows])


@pytest.mark.parametrize(
    ("served", "count"),
    [
        (collecting, 1000),
        pytest.param(collecting, 60 * MESSAGES // 100, marks=SOAK),
        pytest.param(predicting, 35 * MESSAGES // 100, marks=SOAK),
    ],
)
def test_mutated_requests(tmp_path, served, count):
    seed = random.SystemRandom().randrange(1 << 32) if count > 1000 else 1
    print(f"seed {seed}")
    with served(tmp_path) as (server, requests):
        statuses = bombard(server.port, requests, min(count, 20_000), f"warm {seed}")
        before, start = server.memory(), time.monotonic()
        if count > 20_000:
            statuses += bombard(server.port, requests, count - 20_000, seed)
        seconds, after, most = time.monotonic() - start, server.memory(), server.memory("VmHWM")
        print(
            f"{count:,} mutated requests, {sum(statuses.values()):,} answers, {seconds:.0f} s: {sorted(statuses.items())}"
        )
        print(
            f"memory {before} MiB after 20,000, {after} MiB at the end, {most} MiB at most; "
            f"log {server.log.stat().st_size:,} bytes"
        )
        assert after < before + 64
        assert 500 not in statuses
        assert statuses[200] > count / 50
    assert b"Traceback" not in server.log.read_bytes()


def rechained(text, mutator):
    """A ledger of which one line says something else, and all lines are in the chain."""
    entries, lines = [], [json.loads(line) for line in text.splitlines()]
    place = mutator.chance.randrange(len(lines))
    for number, line in enumerate(lines):
        body = {name: value for name, value in line.items() if name not in ("index", "previous", "hash")}
        changed = mutator.changed_json(body) if number == place else body
        entries.append(chained(entries, changed if isinstance(changed, dict) else {"kind": changed}))
    return "".join(f"{canonical_json(one)}\n" for one in entries).encode()


def used(folder):
    """Do with the files what the command line of a device does, as far as they can be read."""
    asked = Schema.from_json((folder / "schema.json").read_bytes())
    values, device = read_answers(folder / "values.toml"), Device.open(folder / "device")
    for act in (device.spent, lambda: device.statement(asked), lambda: device.code(asked), lambda: device.is_fresh):
        act()
    device.check(asked, values)
    if not device.has_report(asked):
        oddities(asked, values, {})
    assert decode(asked, device.report(asked, values)).user


@pytest.mark.parametrize("count", [60, pytest.param(5 * MESSAGES // 100, marks=SOAK)], ids=["few", "many"])
def test_mutated_files_of_a_device(tmp_path, count):
    seed = random.SystemRandom().randrange(1 << 32) if count > 60 else 1
    print(f"seed {seed}")
    (tmp_path / "schema.json").write_text(SCHEMA.text)
    (tmp_path / "values.toml").write_text('label = "b"\n')
    device = Device.create(tmp_path / "device", "ada", epsilon_cap=5.0)
    device.report(SCHEMA, {"label": "b"})
    keep_code(device.folder, SCHEMA.sha256, SERVER_KEY.code(SCHEMA, "ada"))
    names = ["schema.json", "values.toml", "device/device.json", "device/codes.json", "device/ledger.jsonl"]
    files = {tmp_path / name: (tmp_path / name).read_bytes() for name in names}
    lines = files[tmp_path / names[-1]].splitlines(keepends=True)
    mutator, outcomes, before = Mutator((), seed), Counter(), 0
    for number in range(count):
        path = mutator.chance.choice([*files])
        ledger = b"".join(lines[: mutator.chance.choice((1, 2, 3, 3))])  # made, charged, drawn
        (tmp_path / names[-1]).write_bytes(ledger)
        files[tmp_path / names[-1]] = ledger
        again = path.suffix == ".jsonl" and mutator.chance.random() < 0.7
        changed = mutator.changed(files[path])
        with suppress(ValueError):  # what no ledger can hold
            changed = rechained(files[path].decode(), mutator) if again else changed
        path.write_bytes(changed)
        try:
            used(tmp_path)
        except SfumatoError as error:
            outcomes[type(error).__name__] += 1
        else:
            outcomes["read"] += 1
        path.write_bytes(files[path])
        if number == min(count, 5_000) - 1:
            before = memory("self")
    print(
        f"{count:,} mutated files: {sorted(outcomes.items())}; memory {before} MiB after 20,000, {memory('self')} MiB at the end"
    )
    assert memory("self") < before + 64
    assert outcomes["read"] > 0
