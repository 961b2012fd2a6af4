"""Uploads a second of the collection server: single signed reports, and batches of 500 with a code a report.

    python benchmarks/collect_load.py [--seconds 10] [--users 200000]

Client and server share this machine and talk over loopback. The client is `wrk` (Debian: apt-get install wrk), which sends
requests that were made before. The server enrolled all users, so it knows their keys. Every answer must be a success, and at
the end the store must hold each acknowledged report once. With few users the requests are used up before the time is.
"""

import json
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import study

from sfumato.collect import _keys as keys
from sfumato.collect import _wire as wire
from sfumato.collect._batch import encode_batch
from sfumato.collect._keys import DeviceKeys, ServerKey
from sfumato.collect._schema import Schema

BATCH, ENROL = 500, 1000
SCRIPT = """
local file, sizes, place = io.open("%(bodies)s", "rb"), {}, 0
local last, good, bad = nil, 0, 0
function request()
  local size = file:read(8)
  if size == nil then wrk.thread:stop(); return last end
  last = wrk.format("POST", "%(path)s", {["Content-Type"] = "application/octet-stream"}, file:read(tonumber(size)))
  return last
end
function done(summary, latency)
  io.write(string.format('JSON {"requests": %%d, "seconds": %%.3f, "p50": %%.2f, "p99": %%.2f, "errors": %%d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    summary.errors.status + summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout))
end
"""


def questions(key: ServerKey) -> Schema:
    """Eight features and a label of four classes."""
    now = time.time()
    times = {
        name: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + shift))
        for name, shift in (("opens", -3600), ("closes", 86400))
    }
    return Schema.from_dict(
        {
            "collection": "load",
            "purpose": "Measure.",
            "server_key": key.public.hex(),
            **times,
            "features": {"names": [f"f{place}" for place in range(8)], "epsilon": 1.0, "mechanism": "multi-bit"},
            "label": {"classes": ["a", "b", "c", "d"], "epsilon": 1.0},
        }
    )


def report(schema: Schema, user: str) -> bytes:
    """A canonical message; what it says does not matter here."""
    layout = schema.parts["features"].layouts[0]
    drawn = tuple(range(layout.count)) * bool(layout.of)
    subset = schema.parts["label"].layouts[0]
    label = tuple(range(subset.count)) * bool(subset.of) + (subset.low,) * subset.count
    return wire.encode(schema, user, {"features": (*drawn, *(layout.low,) * layout.count), "label": label})


def enrol(url: str, schema: Schema, key: ServerKey, devices: dict[str, DeviceKeys], token: Path) -> float:
    """Enrol all devices in lists; return enrolments a second."""
    users = [
        {"user": user, "sign_key": own.sign_key.hex(), "agree_key": own.agree_key.hex(), "code": key.code(schema, user)}
        for user, own in devices.items()
    ]
    operator = {"Authorization": f"Bearer {token.read_text().strip()}"}  # whom no limit by address holds up
    start = time.perf_counter()
    for place in range(0, len(users), ENROL):
        answers = httpx.post(
            f"{url}/users", json=users[place : place + ENROL], timeout=60, verify=False, headers=operator
        ).json()
        assert {one["status"] for one in answers} == {201}
    return len(users) / (time.perf_counter() - start)


def load(url: str, path: str, bodies: list[bytes], folder: Path, seconds: int) -> dict[str, float]:
    """Send bodies with wrk until they or the time are used up."""
    file, script = folder / "bodies", folder / "load.lua"
    file.write_bytes(b"".join(b"%08d" % len(body) + body for body in bodies))
    script.write_text(SCRIPT % {"bodies": file, "path": path})
    command = ["wrk", "-t1", "-c32", "--timeout", "30s", f"-d{seconds}s", "-s", str(script), url]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"JSON (.*)", said)
    assert found is not None, said
    return json.loads(found[1])


@contextmanager
def serving(folder: Path, key: ServerKey, store: str) -> Iterator[tuple[str, Schema]]:
    """Serve a collection from a folder; yield its address and what it asks."""
    schema = questions(key)
    (folder / "schema.json").write_text(schema.text)
    key.write(folder / "server.key")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["schema.json", "--store", store, "--port", str(port)]
    server = subprocess.Popen([sys.executable, "-m", "sfumato", "collect", "serve", *words], cwd=folder)
    try:
        wait(f"http://127.0.0.1:{port}/readyz")
        yield f"http://127.0.0.1:{port}", schema
    finally:
        server.terminate()
        server.wait(30)


def wait(url: str) -> None:
    """Wait until an address answers."""
    while True:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)


def main() -> None:
    """Measure both ways to upload."""
    given = study.options(__doc__, seconds=10, users=200_000)
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed (Debian: apt-get install wrk).")
    with tempfile.TemporaryDirectory() as name:
        folder, key = Path(name), ServerKey.new()
        with serving(folder, key, "reports.sqlite") as (url, schema):
            measure(url, schema, key, folder, given.users, given.seconds, folder / "reports.sqlite")


def measure(url: str, schema: Schema, key: ServerKey, folder: Path, users: int, seconds: int, store: Path) -> None:
    """Print the figures of both ways to upload."""
    devices = {f"user-{place}": DeviceKeys.new() for place in range(users)}
    print(
        f"enrolled in lists of {ENROL}: {enrol(url, schema, key, devices, folder / 'admin.token'):,.0f} a second",
        flush=True,
    )
    names = list(devices)
    alone, together = names[: users // 5], names[users // 5 :]
    singles = []
    for user in alone:
        message = report(schema, user)
        singles.append(message + devices[user].sign(message))
    start = time.time()
    tell("single signed reports", load(url, "/reports", singles, folder, seconds), 1, store, start)
    batches = []
    for start in range(0, len(together), BATCH):
        messages = [(user, report(schema, user)) for user in together[start : start + BATCH]]
        coded = [(one, keys.mac(devices[user].mac_key(key.public, user), one)) for user, one in messages]
        sender = together[start]
        batches.append(encode_batch(schema, sender, devices[sender], coded))
    start = time.time()
    tell(f"batches of {BATCH}", load(url, "/batches", batches, folder, seconds), BATCH, store, start)


def tell(what: str, found: dict[str, float], each: int, store: Path, start: float) -> None:
    """Print one line. The rate is that of the store from the first commit to the last one: wrk may have run out of bodies."""
    with closing(sqlite3.connect(store)) as connection:
        query = "select count(*), min(received_at), max(received_at) from reports where received_at > ?"
        held, first, last = connection.execute(query, (start,)).fetchone()
    print(
        f"{what}: {held / (last - first):,.0f} reports a second, p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms; "
        f"{held:,} new reports in the store, {found['requests'] * each:,} acknowledged in time, {found['errors']:,} errors",
        flush=True,
    )


if __name__ == "__main__":
    main()
