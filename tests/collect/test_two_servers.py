"""Two server processes on one store: what one of them took, the other knows."""

import subprocess
import sys
from contextlib import ExitStack, contextmanager

import httpx
import pytest
from devices import SERVER_KEY, FakeDevice, label_schema

from sfumato.collect._store import Store

SCHEMA = label_schema(opens="2020-01-01T00:00:00Z", closes="2120-01-01T00:00:00Z")


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request, tmp_path):
    return str(tmp_path / "reports.sqlite") if request.param == "sqlite" else request.getfixturevalue("postgres_url")


@contextmanager
def served(folder, where):
    """A server on a free port, by its address."""
    command = [sys.executable, "-m", "sfumato", "collect", "serve", "schema.json", "--store", where, "--port", "0"]
    server = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        line = server.stderr.readline()
        assert "Ctrl-C stops the server" in line, line + server.stderr.read()
        yield line.split(" at ")[1].split("/ (")[0]
    finally:
        server.terminate()
        server.communicate(timeout=60)


def test_what_one_server_took_the_other_knows(tmp_path, where):
    (tmp_path / "schema.json").write_text(SCHEMA.text)
    SERVER_KEY.write(tmp_path / "server.key")
    ada, bob = FakeDevice("ada", SCHEMA), FakeDevice("bob", SCHEMA)
    with ExitStack() as stack:
        left, right = (stack.enter_context(served(tmp_path, where)) for _ in range(2))
        assert httpx.post(f"{left}/users", json=ada.code).status_code == 201
        assert httpx.post(f"{right}/users", json=bob.code).status_code == 201
        assert httpx.post(f"{right}/reports", content=ada.body(2)).status_code == 201
        assert httpx.post(f"{left}/reports", content=ada.body(2)).status_code == 200
        assert httpx.post(f"{left}/reports", content=ada.body(1)).status_code == 409
        store = Store.open(where)
        assert store.messages() == (ada.message(2),)
        store.close()
        store.dispose()
        for url in (left, right):
            assert httpx.get(f"{url}/status").json()["state"] == "closed"
            assert httpx.post(f"{url}/reports", content=bob.body(1)).status_code == 410
