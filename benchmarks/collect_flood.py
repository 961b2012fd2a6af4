"""Honest reports while others hold connections open: silent ones, and slow ones that send a byte a second.

    python benchmarks/collect_flood.py [--silent 5000] [--slow 1000] [--seconds 120] [--plain] [--descriptors 1024]

Server, flood and honest devices share this machine and talk over loopback. The flood opens each connection again that the server
ends. An honest device opens a connection for its report, and after a failure it sends the same bytes again half a second later;
its latency is that of all its attempts. The flood comes from this machine's own address, which the server takes for a proxy, so
no limit by address is in its way; with --addresses 3 it comes from three others, which are limited each.
"""

import asyncio
import http.client
import json
import multiprocessing
import resource
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import study
from collect_load import enrol, questions, report

from sfumato.collect._keys import DeviceKeys, ServerKey

HOST = "127.0.0.1"
HEAD = b"POST /reports HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n" + b"x" * 99
PAUSE, PATIENCE, AGAIN = 0.05, 60.0, 0.5


async def hold(port: int, slow: bool, context: ssl.SSLContext | None, address: str, counts: Counter[str]) -> None:
    """Hold a connection open, and open it again when the server ends it."""
    while True:
        counts["opened"] += 1
        try:
            encrypted = context if slow else None
            reader, writer = await asyncio.open_connection(HOST, port, ssl=encrypted, local_addr=(address, 0))
        except OSError:
            await asyncio.sleep(0.1)
            continue
        try:
            for place in range(len(HEAD)) if slow else ():
                writer.write(HEAD[place : place + 1])
                try:
                    if not await asyncio.wait_for(reader.read(1), 1):
                        break
                except TimeoutError:
                    continue
            else:
                await reader.read()
        except OSError:
            pass
        finally:
            writer.transport.abort()
            counts["ended"] += 1


def flood(
    port: int, silent: int, slow: int, encrypted: bool, addresses: list[str], told: multiprocessing.Queue
) -> None:
    """Attack until the process is ended; tell every second how many connections were opened and ended."""

    async def attack() -> None:
        counts: Counter[str] = Counter()
        context = ssl._create_unverified_context() if encrypted else None
        tasks = []
        for place in range(silent + slow):
            address = addresses[place % len(addresses)]
            tasks.append(asyncio.create_task(hold(port, place >= silent, context, address, counts)))
            if place % 50 == 0:
                await asyncio.sleep(0.005)
        while True:
            told.put(dict(counts))
            await asyncio.sleep(1)

    asyncio.run(attack())


def device(
    port: int, encrypted: bool, bodies: list[bytes], end: float, latencies: list[float], fails: Counter[str]
) -> None:
    """Send reports one after the other, each over a connection of its own, until ``end``."""
    kind: Any = http.client.HTTPSConnection if encrypted else http.client.HTTPConnection
    more = {"context": ssl._create_unverified_context()} if encrypted else {}
    for body in bodies:
        start = time.monotonic()
        if start > end:
            return
        while True:
            try:
                made = kind(HOST, port, timeout=PATIENCE, **more)
                made.request("POST", "/reports", body, {"Content-Type": "application/octet-stream"})
                status = made.getresponse().status
                made.close()
                if status in (200, 201):
                    break
                fails[str(status)] += 1
            except (OSError, http.client.HTTPException) as error:
                fails[type(error).__name__] += 1
            if time.monotonic() > end + PATIENCE:
                fails["given up"] += 1
                return
            time.sleep(AGAIN)
        latencies.append(time.monotonic() - start)
        time.sleep(PAUSE)


def memory(process: int) -> str:
    """Peak memory of a process, in MiB."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return f"{int(next(line for line in lines if line.startswith('VmHWM')).split()[1]) >> 10} MiB"


def main() -> None:
    asked = study.options(
        __doc__, silent=5000, slow=1000, seconds=120, descriptors=1024, devices=4, addresses=0, plain=False
    )
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with tempfile.TemporaryDirectory() as name:
        attack(Path(name), asked)


def started(folder: Path, asked: Any) -> tuple[subprocess.Popen[bytes], int, str]:
    """Start a server with few descriptors; return the process, its port and its address."""
    options = ["--port", "0"]
    if not asked.plain:
        command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -keyout tls.key -out tls.pem -days 2"
        subprocess.run([*command.split(), "-subj", "/CN=localhost"], cwd=folder, check=True, capture_output=True)
        options += ["--certificate", "tls.pem", "--key", "tls.key"]
    limit = f'ulimit -n {asked.descriptors}; exec "$@"'
    command = ["sh", "-c", limit, "sh", sys.executable, "-m", "sfumato", "collect", "serve", "schema.json", *options]
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, cwd=folder, stderr=file)
    while "Ctrl-C" not in log.read_text():
        if process.poll() is not None:
            sys.exit(log.read_text())
        time.sleep(0.05)
    url = log.read_text().split(" at ")[1].split("/ (")[0]
    return process, int(url.rsplit(":", 1)[1]), url


def attack(folder: Path, asked: Any) -> None:
    """Print the latency of honest reports under the flood, and what the server took and wrote."""
    key = ServerKey.new()
    schema = questions(key)
    (folder / "schema.json").write_text(schema.text)
    key.write(folder / "server.key")
    server, port, url = started(folder, asked)
    told: multiprocessing.Queue = multiprocessing.Queue()
    own = [f"127.0.0.{2 + place}" for place in range(asked.addresses)] or [HOST]
    arguments = (port, asked.silent, asked.slow, not asked.plain, own, told)
    attacker = multiprocessing.Process(target=flood, args=arguments, daemon=True)
    try:
        devices = {f"user-{place}": DeviceKeys.new() for place in range(asked.devices * 1000)}
        enrol(url, schema, key, devices, folder / "admin.token")
        bodies = [(one := report(schema, user)) + own_keys.sign(one) for user, own_keys in devices.items()]
        attacker.start()
        time.sleep(3)
        latencies: list[float] = []
        fails: Counter[str] = Counter()
        end = time.monotonic() + asked.seconds
        sent = ((bodies[place :: asked.devices] * 9, end, latencies, fails) for place in range(asked.devices))
        threads = [threading.Thread(target=device, args=(port, not asked.plain, *one)) for one in sent]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        counts: dict[str, int] = told.get()
        while not told.empty():
            counts = told.get()
        ranked = statistics.quantiles(latencies, n=1000) if len(latencies) > 1 else [float("nan")] * 999
        figures = {
            "reports": len(latencies), "p50_ms": round(1e3 * ranked[499], 1), "p99_ms": round(1e3 * ranked[989], 1),
            "most_ms": round(1e3 * max(latencies, default=float("nan")), 1), "attempts_that_failed": dict(fails),
            "flood": counts, "log_bytes": (folder / "server.log").stat().st_size, "memory_of_server": memory(server.pid),
        }  # fmt: skip
        print(json.dumps(figures), flush=True)
    finally:
        if attacker.is_alive():
            attacker.terminate()
        server.terminate()
        try:
            server.wait(40)
        except subprocess.TimeoutExpired:
            print("the server did not end in 40 seconds", flush=True)
            server.kill()


if __name__ == "__main__":
    main()
