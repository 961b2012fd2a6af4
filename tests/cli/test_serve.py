"""`sfumato serve`: a run answers over HTTP within its certificate, and ends and reads again on signals."""

import csv
import json
import shutil
import signal
import stat
import subprocess
import sys
import time

import httpx
import pytest

from sfumato.cli import invoke

PATIENCE = 60


@pytest.fixture(scope="module")
def trained(tables, tmp_path_factory):
    """Run folders by unit: edge, node, and none."""
    root = tmp_path_factory.mktemp("trained")
    budget = ("--epsilon", "2", "--delta", "1e-5")
    for method, unit, options in (("gap", "edge", budget), ("linear", "node", budget), ("gap", "none", ())):
        arguments = ["train", method, *tables["first"], "--unit", unit, *options, "--out", root / unit, "--json"]
        assert invoke([str(argument) for argument in arguments]) == 0
    return root


def started(folder, *options):
    """Start a server on a free port; return the process and its address, which it prints."""
    log = folder / "server.log"
    with log.open("wb") as file:
        command = [sys.executable, "-m", "sfumato", "serve", *map(str, options), "--port", "0"]
        process = subprocess.Popen(command, stderr=file)
    deadline = time.monotonic() + PATIENCE
    while "Ctrl-C" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process, log.read_text().split(" at ")[1].split("/predictions/")[0]


def stopped(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(PATIENCE)


def test_a_run_that_anyone_may_see_is_served_and_read_again(trained, tmp_path, sfumato):
    run = shutil.copytree(trained / "edge", tmp_path / "run")
    assert sfumato("predict", run, "--out", tmp_path / "p.csv").code == 0
    with (tmp_path / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    process, url = started(tmp_path, run)
    try:
        nodes = [row["node"] for row in rows]
        told = httpx.post(f"{url}/predictions", json={"nodes": nodes}).json()["predictions"]
        assert [one["predicted"] for one in told] == [row["predicted"] for row in rows]
        assert (
            httpx.get(f"{url}/run").json()["claim"]
            == json.loads((run / "release" / "certificate.json").read_text())["claim"]
        )
        shutil.move(run, tmp_path / "away")
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while "still served" not in (tmp_path / "server.log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert httpx.get(f"{url}/predictions/{nodes[0]}").status_code == 200
        shutil.move(tmp_path / "away", run)
        process.send_signal(signal.SIGHUP)
        while "was read again" not in (tmp_path / "server.log").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        assert stopped(process) == 0
    assert "Traceback" not in (tmp_path / "server.log").read_text()


def test_predictions_for_their_own_nodes_need_tokens(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process, url = started(tmp_path, trained / "node", "--tokens", "tokens.csv")
    try:
        with (tmp_path / "tokens.csv").open() as file:
            tokens = {row["node"]: row["token"] for row in csv.DictReader(file)}
        node, other = list(tokens)[:2]
        for token, status in ((tokens[node], 200), (tokens[other], 401)):
            headers = {"Authorization": f"Bearer {token}"}
            assert httpx.get(f"{url}/predictions/{node}", headers=headers).status_code == status
        assert httpx.post(f"{url}/predictions", json={"nodes": [node]}).status_code == 403
    finally:
        assert stopped(process) == 0
    for name in ("tokens.csv", "serve.key"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    before = (tmp_path / "tokens.csv").read_bytes()
    process, _ = started(tmp_path, trained / "node", "--tokens", "tokens.csv")
    assert stopped(process) == 0
    assert (tmp_path / "tokens.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("unit", "options", "words"),
    [
        ("none", (), "nobody"),
        ("edge", ("--tokens", "t.csv"), "anyone may see"),
        ("edge", ("--certificate", "c.pem"), "Add the other"),
        ("node", ("--token-key", "short.key"), "64 hexadecimal digits"),
        ("absent", (), "absent"),
    ],
)
def test_bad_input_ends_with_2(trained, tmp_path, monkeypatch, sfumato, unit, options, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "short.key").write_text("abc\n")
    result = sfumato("serve", trained / unit, *options)
    assert (result.code, words in result.err) == (2, True)
    assert result.err.count("\n") == 1
    assert not (tmp_path / "t.csv").exists()
