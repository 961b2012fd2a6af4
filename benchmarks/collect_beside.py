"""Reports a second of the collection server, beside a bare FastAPI insert of the same bytes into the same database.

    python benchmarks/collect_beside.py [--seconds 10] [--postgres postgresql+psycopg://user@/database?host=/socket]

The bare application has one call, which inserts the body in a transaction of its own in a thread, under plain uvicorn; it checks
no signature and knows no user. Client and server share this machine and talk over 32 connections of loopback, which stay open.
Each report is new. Both databases must have put a report on disk before it is answered. Name an empty database for PostgreSQL.
"""

import asyncio
import json
import multiprocessing
import socket
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sql
import study
import uvicorn
from collect_load import enrol, report, serving, wait
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool

from sfumato.collect._keys import DeviceKeys, ServerKey

CONNECTIONS, USERS = 32, 40_000


def bare(store: str, listener: socket.socket) -> None:
    """Serve the bare application in a process of its own."""
    engine = sql.create_engine(store if "://" in store else f"sqlite:///{store}")
    table = sql.Table(
        "bare", sql.MetaData(), sql.Column("id", sql.Integer, primary_key=True), sql.Column("body", sql.LargeBinary)
    )
    if engine.dialect.name == "sqlite":

        @sql.event.listens_for(engine, "connect")
        def set_up(connection, _record):
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA busy_timeout=30000")

    table.metadata.create_all(engine)
    app = FastAPI()

    def insert(body: bytes) -> None:
        with engine.begin() as connection:
            connection.execute(sql.insert(table).values(body=body))

    @app.post("/reports", status_code=201)
    async def take(request: Request):
        await run_in_threadpool(insert, await request.body())
        return {"answer": "stored"}

    uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False, http="httptools")).run([listener])


def load(port: int, bodies: list[bytes], seconds: float, told: multiprocessing.Queue) -> None:
    """Send reports over all connections until they or the time are used up."""

    async def work() -> None:
        waiting, found, end = iter(bodies), [], time.perf_counter() + seconds

        async def one() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for body in waiting:
                start = time.perf_counter()
                if start > end:
                    break
                writer.write(b"POST /reports HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                head = await reader.readuntil(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 201"), head
                await reader.readexactly(int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                found.append(time.perf_counter() - start)
            writer.close()

        start = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
        told.put((found, time.perf_counter() - start))

    asyncio.run(work())


def measure(what: str, port: int, bodies: list[bytes], seconds: float) -> None:
    """Print the figures of one server."""
    told: multiprocessing.Queue = multiprocessing.Queue()
    client = multiprocessing.Process(target=load, args=(port, bodies, seconds, told))
    client.start()
    found, took = told.get(timeout=seconds + 60)
    client.join()
    ranked = statistics.quantiles(found, n=100)
    figures = {
        "what": what, "a_second": round(len(found) / took), "p50_ms": round(1e3 * ranked[49], 1),
        "p99_ms": round(1e3 * ranked[98], 1),
    }  # fmt: skip
    print(json.dumps(figures), flush=True)


def run_bare(name: str, store: str, bodies: list[bytes], seconds: float) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        server = multiprocessing.Process(target=bare, args=(store, listener), daemon=True)
        server.start()
        port = listener.getsockname()[1]
        wait(f"http://127.0.0.1:{port}/openapi.json")
        measure(f"bare FastAPI insert, {name}", port, bodies, seconds)
        server.terminate()
        server.join()


def run_ours(name: str, store: str, folder: Path, key: ServerKey, given: Any) -> list[bytes]:
    """Measure `sfumato collect serve`, and return the bodies of the reports."""
    with serving(folder, key, store) as (url, schema):
        devices = {f"user-{place}": DeviceKeys.new() for place in range(given.users)}
        enrol(url, schema, key, devices, folder / "admin.token")
        messages = {user: report(schema, user) for user in devices}
        bodies = [message + devices[user].sign(message) for user, message in messages.items()]
        measure(f"sfumato collect serve, {name}", int(url.rpartition(":")[2]), bodies, given.seconds)
    return bodies


def main() -> None:
    """Measure both servers on each database."""
    given = study.options(__doc__, seconds=10.0, users=USERS, postgres=None)
    stores = {"SQLite": ""} | ({"PostgreSQL": given.postgres} if given.postgres else {})
    for name, url in stores.items():
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            bodies = run_ours(name, url or "reports.sqlite", folder, ServerKey.new(), given)
            run_bare(name, url or str(folder / "bare.sqlite"), bodies, given.seconds)


if __name__ == "__main__":
    main()
