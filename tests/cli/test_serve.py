"""`sfumato serve`: a run answers over HTTP within its certificate, and ends and reads again on signals."""

import csv
import json
import secrets
import shutil
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpx
import pytest
from contracts_forgery import rewrite

from sfumato.cli import _serve as serve

PATIENCE = 60


@pytest.fixture
def trained(trained, run_of):
    """Run folders by unit: edge, node, and none."""
    budget = "--epsilon 2 --delta 1e-5"
    node = run_of(f"linear --unit node {budget} --assume-public")
    return {
        "edge": run_of(f"label-messages --unit edge {budget}"),
        "node": node,
        "none": trained["none"],
        "absent": "absent",
    }


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    """Files without a folder are those of the test."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def taken():
    """Options that name a port which is in use, so that a server that is not refused before ends here."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield "--port", listener.getsockname()[1]


def test_a_server_makes_sets_and_chooses(trained, refused, tables, tmp_path):
    from sfumato.cli._serve import _read
    from sfumato.method._decisions import Decision

    found = _read(trained["edge"], Decision(coverage=0.8, positive="2005", threshold="cost=1:1"))
    told = found.tell(next(iter(found.rows)))
    assert told.keys() == {"node", "predicted", "probabilities", "source", "set", "chosen"}
    assert "exchangeable" in found.about()["decided"][0]
    refused("At node level `sfumato predict --coverage C --epsilon E`", "serve", trained["node"], "--coverage", "0.8")


def test_a_run_that_anyone_may_see_is_served_and_read_again(serving, trained, tmp_path, sfumato):
    run = shutil.copytree(trained["edge"], tmp_path / "run")
    assert sfumato("predict", run, "--out", tmp_path / "p.csv").code == 0
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    server = serving("serve", run)
    nodes = [row["node"] for row in rows]
    told = httpx.post(f"{server.url}/predictions", json={"nodes": nodes}).json()["predictions"]
    assert [one["predicted"] for one in told] == [row["predicted"] for row in rows]
    assert httpx.post(f"{server.url}/predictions", json={"nodes": nodes * 2000}).status_code == 413
    assert (
        httpx.get(f"{server.url}/run").json()["claim"]
        == json.loads((run / "release" / "certificate.json").read_text())["claim"]
    )
    shutil.move(run, tmp_path / "away")
    server.hang_up("still served")
    assert httpx.get(f"{server.url}/predictions/{nodes[0]}").status_code == 200
    shutil.move(tmp_path / "away", run)
    server.hang_up("was read again")
    assert server.stop() == 0
    assert all(json.loads(line)["event"] for line in (tmp_path / "server.log").read_text().splitlines())


def test_predictions_for_their_own_nodes_need_tokens(serving, trained, tmp_path):
    server = serving("serve", trained["node"], "--tokens", "tokens.csv")
    with (tmp_path / "tokens.csv").open() as file:
        tokens = {row["node"]: row["token"] for row in csv.DictReader(file)}
    node, other = list(tokens)[:2]
    for token, status in ((tokens[node], 200), (tokens[other], 401)):
        headers = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{server.url}/predictions/{node}", headers=headers).status_code == status
    assert httpx.post(f"{server.url}/predictions", json={"nodes": [node]}).status_code == 403
    assert server.stop() == 0
    for name in ("tokens.csv", "serve.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    before = (tmp_path / "tokens.csv").read_bytes()
    serving("serve", trained["node"], "--tokens", "tokens.csv")
    assert (tmp_path / "tokens.csv").read_bytes() == before


def test_first_starts_at_one_time_share_one_secret(tmp_path, monkeypatch):
    starts, token_hex = threading.Barrier(4), secrets.token_hex

    def slow(length):
        time.sleep(0.05)
        return token_hex(length)

    def start(_):
        starts.wait()
        return serve._secret(tmp_path / "serve.key")

    monkeypatch.setattr(secrets, "token_hex", slow)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(start, range(4)))
    assert found == [bytes.fromhex((tmp_path / "serve.key").read_text())] * 4


@pytest.mark.parametrize(
    ("unit", "options", "words"),
    [
        ("none", (), "nobody"),
        ("edge", ("--tokens", "t.csv"), "anyone may see"),
        ("edge", ("--certificate", "c.pem"), "Add the other"),
        ("node", ("--token-key", "short.key", "--port", 0), "64 hexadecimal digits"),
        ("absent", (), "absent"),
        ("edge", ("--host", "a" * 100), "--host and --port"),
    ],
)
def test_bad_input_ends_with_2(trained, tmp_path, sfumato, taken, unit, options, words):
    (tmp_path / "short.key").touch(0o600)
    (tmp_path / "short.key").write_text("abc\n")
    result = sfumato("serve", trained[unit], *taken, *options)
    assert (result.code, words in result.err) == (2, True)
    assert result.err.count("\n") == 1
    assert not (tmp_path / "t.csv").exists()


def test_a_run_for_other_eyes_does_not_take_over(serving, trained, tmp_path):
    """The server of a public run has no secret: it must not begin to serve predictions that need one."""
    run = shutil.copytree(trained["edge"], tmp_path / "run")
    server = serving("serve", run)
    shutil.rmtree(run)
    shutil.copytree(trained["node"], run)
    server.hang_up("still served")
    assert httpx.get(f"{server.url}/run").json()["method"] == "label-messages"
    assert "Invalid" not in (tmp_path / "server.log").read_text()
    assert server.stop() == 0
    assert not (tmp_path / "serve.key").exists()


def test_the_table_of_tokens_follows_a_newer_run(serving, trained, tmp_path):
    table = tmp_path / "tokens.csv"
    server = serving("serve", trained["node"], "--tokens", table)
    before = table.read_bytes()
    table.unlink()
    server.hang_up("was read again")
    assert table.read_bytes() == before


def test_requests_that_are_no_http_write_no_log(serving, trained, tmp_path):
    server = serving("serve", trained["edge"])
    before = (tmp_path / "server.log").read_text()
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"n17\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 400")
    upgrade = {"connection": "upgrade", "upgrade": "websocket"}
    assert httpx.get(f"{server.url}/run", headers=upgrade).status_code == 200
    assert server.stop() == 0
    assert (tmp_path / "server.log").read_text() == before


def test_silent_connections_beyond_the_descriptors_stop_no_answer(serving, trained, tmp_path):
    server = serving("serve", trained["edge"], descriptors=200)
    before = (tmp_path / "server.log").stat().st_size
    with ExitStack() as stack:
        for _ in range(300):
            stack.enter_context(socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1])), PATIENCE))
        assert httpx.get(f"{server.url}/run", timeout=5).status_code == 200
    assert server.stop() == 0
    lines = (tmp_path / "server.log").read_bytes()[before:].decode().splitlines()
    assert {json.loads(line)["event"] for line in lines} == {"connection refused"}
    assert len(lines) < 100


@pytest.mark.parametrize(
    "change",
    [
        lambda values, _: values["who_may_see"]["anyone"].append("predictions for all nodes"),
        lambda values, _: values["claim"].update(epsilon=0.001),
        lambda values, _: values.pop("who_may_see"),
    ],
    ids=["audience", "epsilon", "absent"],
)
def test_a_run_that_does_not_verify_is_not_served(trained, tmp_path, sfumato, taken, change):
    run = shutil.copytree(trained["node"], tmp_path / "run")
    rewrite(run, change)
    result = sfumato("serve", run, *taken)
    assert (result.code, "sfumato verify" in result.err, result.err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "serve.key").exists()


def test_nodes_that_arrived_are_not_served_as_a_run(trained, tmp_path, sfumato, taken):
    shutil.copytree(trained["edge"], tmp_path / "run")
    batch = shutil.copytree(trained["edge"], tmp_path / "run" / "arrivals" / "1")
    result = sfumato("serve", batch, *taken)
    assert (result.code, "arrived" in result.err) == (2, True)


@pytest.mark.parametrize("name", ["nodes.csv", "serve.key"])
def test_tokens_replace_nothing_but_a_table_of_tokens(trained, tmp_path, sfumato, taken, name):
    (tmp_path / "nodes.csv").write_text("id,year\nann,2004\n")
    result = sfumato("serve", trained["node"], "--tokens", name, *taken)
    assert (result.code, "--tokens" in result.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["nodes.csv"]
    assert (tmp_path / "nodes.csv").read_text().startswith("id,year")


def test_a_taken_address_leaves_no_file(trained, tmp_path, sfumato, taken):
    result = sfumato("serve", trained["node"], "--tokens", "t.csv", *taken)
    assert (result.code, list(tmp_path.iterdir())) == (2, [])
