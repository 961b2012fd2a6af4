"""Schemas for tests, and a small server of a collection in memory, which checks keys as the protocol says."""

import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx

from sfumato.collect._batch import decode_batch
from sfumato.collect._connection import Connection
from sfumato.collect._keys import ServerKey, mac, same, verify, verify_batch
from sfumato.collect._schema import Schema
from sfumato.collect._sentences import UNPROVED
from sfumato.collect._wire import decode

KEY = ServerKey(bytes(range(32)))
TIMES = {"opens": "2026-01-01T00:00:00Z", "closes": "2126-01-01T00:00:00Z"}
FEATURES = {
    "columns": [{"name": "age", "min": 0, "max": 120}, {"name": "books", "min": -10, "max": 10}],
    "epsilon": 1.0,
}
LABEL = {"name": "genre", "classes": ["crime", "poetry", "science"], "epsilon": 1.0}


def schema_of(**asked) -> Schema:
    """A schema that is open for a long time; without arguments it asks for two features and a label."""
    asked = asked or {"features": FEATURES, "label": LABEL}
    return Schema.from_dict(
        {"collection": "reading", "purpose": "A test.", **TIMES, "server_key": KEY.public.hex(), **asked}
    )


@dataclass
class FakeServer:
    """What a server keeps: devices and reports by user id, and every request; ``failures`` are answered first."""

    schema: Schema
    users: dict = field(default_factory=dict)
    reports: dict = field(default_factory=dict)
    requests: list = field(default_factory=list)
    failures: list = field(default_factory=list)
    revoked: list = field(default_factory=list)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, object]:
        self.requests.append((path, body))
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Exception):
                raise failure
            status, said = failure if isinstance(failure, tuple) else (failure, "Later.")
            return status, {"detail": said}
        match method, path:
            case "GET", "/schema":
                return 200, json.loads(self.schema.text)
            case "POST", "/users":
                asked = json.loads(body)
                many = [self._enrol(one) for one in (asked if isinstance(asked, list) else [asked])]
                if isinstance(asked, list):
                    return 200, [{"status": status, "detail": detail} for status, detail in many]
                return many[0][0], {"detail": many[0][1]}
            case "POST", ("/reports" | "/withdrawals"):
                message, signature, back = body[:-64], body[-64:], path == "/withdrawals"
                user = decode(self.schema, message).user
                code = self.code(user) if back else None
                if user not in self.users or not verify(self.users[user][0], message, signature, withdrawal=code):
                    return 403, {"detail": UNPROVED.format("signature")}
                if back:
                    return 201 if self.reports.pop(user, None) else 200, {}
                status = self._take(user, message)
                return status, {"detail": "Other bytes." if status == 409 else ""}
            case "POST", "/batches":
                return self._batch(body)
        return 404, {"detail": "Nothing is here."}

    def code(self, user: str) -> str:
        """The code that counts."""
        return KEY.code(self.schema, user, self.revoked.count(user))

    def _enrol(self, asked: dict) -> tuple[int, str]:
        user, keys = asked["user"], (bytes.fromhex(asked["sign_key"]), bytes.fromhex(asked["agree_key"]))
        if not same(asked["code"], self.code(user)):
            return 403, "Wrong code."
        known = self.users.setdefault(user, keys)
        return (201 if known is keys else 200, "") if known == keys else (409, "Another key.")

    def _take(self, user: str, message: bytes) -> int:
        known = self.reports.get(user)
        self.reports.setdefault(user, message)
        return 201 if known is None else 200 if known == message else 409

    def _batch(self, body: bytes) -> tuple[int, object]:
        batch = decode_batch(self.schema, body)
        if batch.sender not in self.users or not verify_batch(
            self.users[batch.sender][0], batch.signed, batch.signature
        ):
            return 403, {"detail": UNPROVED.format("signature")}
        statuses = []
        for message, code in batch.reports:
            user = decode(self.schema, message).user
            right = user in self.users and same(code, mac(KEY.mac_key(self.users[user][1], user), message))
            statuses.append(self._take(user, message) if right else 403)
        refused = [{"place": i, "status": one, "detail": ""} for i, one in enumerate(statuses) if one > 201]
        return 200, {"stored": statuses.count(201), "repeated": statuses.count(200), "refused": refused}

    def connection(self, url: str = "http://127.0.0.1:9", waits: list | None = None) -> Connection:
        """A connection that needs no network; ``waits`` gets the seconds that it would have waited."""

        def handle(request: httpx.Request) -> httpx.Response:
            status, said = self.answer(request.method, request.url.path, request.content)
            return httpx.Response(status, content=json.dumps(said).encode())

        return Connection(url, transport=httpx.MockTransport(handle), wait=(waits if waits is not None else []).append)

    @contextmanager
    def listening(self):
        """Serve on loopback, and give the address."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                size = int(self.headers.get("Content-Length", 0))
                status, said = fake.answer(self.command, self.path, self.rfile.read(size))
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever, args=(0.02,))
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
            thread.join()
