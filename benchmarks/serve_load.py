"""How fast a served run answers: single predictions at a fixed rate, and predictions of many nodes.

    python benchmarks/serve_load.py [--rate 200] [--seconds 20] [--nodes 20000]

Client and server share this machine and talk over loopback. Requests begin at their own times, whether those before are answered
or not, over 8 connections; a request that waits for a free connection counts from the time at which it was due. Tokens are
asked for as at node level. A run is made up, since the cost of an answer does not depend on the model.
"""

import asyncio
import json
import multiprocessing
import random
import socket
import time

import numpy as np
import study

from sfumato.method.predictions import Predictions
from sfumato.serving._app import create_app
from sfumato.serving._served import Served, token_of
from sfumato.web._http import WebServer

KEY, CLASSES, CONNECTIONS, MANY = bytes(32), 8, 8, 1000


def served(nodes: int, *, public: bool) -> Served:
    """A run of so many nodes."""
    table = np.random.default_rng(0).dirichlet(np.ones(CLASSES), nodes).astype(np.float32)
    names, empty = tuple(f"node-{i}" for i in range(nodes)), ("",) * nodes
    found = Predictions(names, tuple("abcdefgh"), table, empty, empty, np.zeros(nodes, bool))
    who = {"anyone": ["predictions"] * public, "the node itself": ["predictions"] * (not public), "never": []}
    return Served({"method": "", "protects": "", "unit": {}, "claim": {}, "who_may_see": who}, found)


def serve(nodes: int, public: bool, listener: socket.socket) -> None:
    """Serve in a process of its own."""
    key = None if public else KEY
    WebServer(lambda: create_app(lambda: served(nodes, public=public), key)).run([listener])


def request(node: str) -> bytes:
    """One request for one prediction."""
    return (
        f"GET /predictions/{node} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token_of(KEY, node)}\r\n\r\n".encode()
    )


async def ask(address: tuple[str, int], due: asyncio.Queue[tuple[float, bytes]], found: list[float]) -> None:
    """Answer what is due over one connection."""
    reader, writer = await asyncio.open_connection(*address)
    while True:
        at, said = await due.get()
        writer.write(said)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        found.append(time.perf_counter() - at)
        due.task_done()


async def load(address: tuple[str, int], requests: list[bytes], rate: float) -> list[float]:
    """Send requests at a rate; return the seconds that each one took."""
    due: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    found: list[float] = []
    tasks = [asyncio.create_task(ask(address, due, found)) for _ in range(CONNECTIONS)]
    start = time.perf_counter()
    for place, one in enumerate(requests):
        at = start + place / rate
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        due.put_nowait((at, one))
    await due.join()
    for task in tasks:
        task.cancel()
    return found


def measure(nodes: int, requests: list[bytes], rate: float, *, public: bool) -> list[float]:
    """Start a server, warm it up, and load it."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        process = multiprocessing.get_context("spawn").Process(target=serve, args=(nodes, public, listener))
        process.start()
        try:
            asyncio.run(load(listener.getsockname(), requests[:20], rate))
            return asyncio.run(load(listener.getsockname(), requests, rate))
        finally:
            process.terminate()
            process.join()


def tell(what: str, seconds: list[float]) -> None:
    """Print one line."""
    p50, p99, most = (1e3 * value for value in np.quantile(seconds, (0.5, 0.99, 1.0)))
    print(f"{what}: p50 {p50:.2f} ms, p99 {p99:.2f} ms, largest {most:.2f} ms of {len(seconds):,} requests", flush=True)


def main() -> None:
    """Print a line for each kind of request."""
    given = study.options(__doc__, rate=200.0, seconds=20, nodes=20_000)
    draw = random.Random(0)
    names = [f"node-{i}" for i in range(given.nodes)]
    singles = [request(draw.choice(names)) for _ in range(int(given.rate * given.seconds))]
    tell(f"one node, {given.rate:g} a second", measure(given.nodes, singles, given.rate, public=False))
    bodies = [json.dumps({"nodes": draw.sample(names, MANY)}).encode() for _ in range(100)]
    head = "POST /predictions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    many = [(head % len(body)).encode() + body for body in bodies]
    tell(f"{MANY:,} nodes, 10 a second", measure(given.nodes, many, 10, public=True))


if __name__ == "__main__":
    main()
