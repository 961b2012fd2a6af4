"""The container files name what exists: options, probes, files, networks. Where a container engine is there, they start."""

import contextlib
import http.server
import ipaddress
import json
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import httpx
import pytest
import typer
import yaml
from devices import SERVER_KEY, TOKEN, certify, label_schema

from sfumato.cli import app

FOLDER = Path(__file__).parents[2] / "deploy"
COMPOSE = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
NGINX = (FOLDER / "nginx.conf").read_text()
_TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def value_of(option):
    return next(word.partition("=")[2] for word in SERVICES["collect"]["command"] if word.startswith(f"{option}="))


def command_of(words):
    """The command that these words begin with, and its own words left in them."""
    command = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    return command


def test_the_command_exists():
    described = (FOLDER / "Containerfile").read_text()
    assert json.loads(re.search(r"ENTRYPOINT (\[.*\])", described)[1]) == ["sfumato"]
    words = list(SERVICES["collect"]["command"])
    command = command_of(words)
    known = {option for one in command.params for option in one.opts}
    assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known
    extras = re.search(r"source\[(.*)\]", described)[1].split(",")
    assert all(f"\n{extra} = [" in (FOLDER.parent / "pyproject.toml").read_text() for extra in extras)


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_has_limits_and_a_probe(name):
    service = SERVICES[name]
    assert service["mem_limit"]
    assert service["ulimits"]["nofile"] >= 4096
    assert service["restart"] == "unless-stopped"
    assert service["healthcheck"]["test"][0] == "CMD"
    for kind in ("networks", "secrets"):
        assert set(service.get(kind, ())) <= set(COMPOSE[kind])
    assert set(service.get("depends_on", ())) <= set(SERVICES)


def test_files_and_names_fit_together():
    command = " ".join(SERVICES["collect"]["command"])
    mounted = {f"/run/secrets/{name}" for name in SERVICES["collect"]["secrets"]}
    assert set(re.findall(r"/run/secrets/\w+", command)) == mounted
    assert f"proxy_pass http://collect:{value_of('--port')};" in NGINX
    assert f"127.0.0.1:{value_of('--port')}/healthz" in " ".join(SERVICES["collect"]["healthcheck"]["test"])
    (subnet,) = COMPOSE["networks"]["front"]["ipam"]["config"]
    assert ipaddress.ip_network(value_of("--trusted-proxy")) == ipaddress.ip_network(subnet["subnet"])
    user, host, name = re.match(r"postgresql\+psycopg://(\w+)@(\w+)/(\w+)", value_of("--store")).groups()
    set_up = SERVICES[host]["environment"]
    assert (set_up["POSTGRES_USER"], set_up["POSTGRES_DB"]) == (user, name)
    assert "database" not in {one for one in SERVICES if "front" in SERVICES[one]["networks"]}
    assert NGINX.count("{") == NGINX.count("}")
    assert "proxy_set_header X-Forwarded-For $remote_addr;" in NGINX
    assert value_of("--token-key") == "/run/secrets/token_key"  # without which an anonymous survey does not start
    assert not Path(FOLDER / "secrets").exists()  # they are the operator's, and never in the repository


def test_one_of_two_servers_fits_together():
    compose = yaml.safe_load((FOLDER / "two-servers.yaml").read_text())
    services = compose["services"]
    assert services["proxy"] == SERVICES["proxy"]
    words = services["collect"]["command"]
    assert words[:3] == ["collect", "serve", services["collect"]["volumes"][0].partition(":")[2]]
    known = {option for one in command_of(["collect", "serve"]).params for option in one.opts}
    given = dict(word.split("=") for word in words[3:])
    assert given.keys() <= known
    (subnet,) = compose["networks"]["front"]["ipam"]["config"]
    assert given["--trusted-proxy"] == subnet["subnet"]
    assert given["--port"] == value_of("--port")
    same = ("build", "healthcheck", "read_only", "tmpfs", "cap_drop", "security_opt", "ulimits", "restart")
    assert all(services["collect"][name] == SERVICES["collect"][name] for name in same)


def test_a_relay_passes_reports_on_and_nothing_of_devices():
    relay = (FOLDER / "relay.conf").read_text()
    assert relay.count("{") == relay.count("}")
    assert re.findall(r"location (.*?) \{", relay) == ["= /reports", "/"]
    assert re.findall(r"proxy_pass (\w+)://", relay) == ["https"]
    assert "proxy_ssl_verify on;" in relay
    assert "proxy_pass_request_headers off;" in relay
    assert 'proxy_set_header X-Forwarded-For "";' in relay
    assert "remote_addr" not in relay.replace("limit_conn_zone $binary_remote_addr", "")
    assert "access_log off;" in relay
    assert "error_log stderr emerg;" in relay  # at lower levels nginx writes down the address of a device
    assert "limit_except POST { deny all; }" in relay
    assert 'set $args "";' in relay
    assert re.search(
        r"proxy_pass https://[\w.]+/reports;", relay
    )  # with a path of its own, which replaces the device's
    assert value_in(relay, "client_body_buffer_size") == value_in(relay, "client_max_body_size")  # nothing on disk


def value_in(text, name):
    return re.search(rf"\b{name} (\w+);", text)[1]


@pytest.mark.skipif(shutil.which("nginx") is None, reason="no nginx runs here")
def test_a_relay_that_runs_makes_all_reports_alike(tmp_path):
    """The server sees the same head whatever a device writes into its own, and the body as it was sent."""
    chain, key = certify(tmp_path)
    heads, context = [], ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)

    class Upstream(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            heads.append((self.requestline, sorted(self.headers.items()), body))
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_):
            pass

    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    upstream.socket = context.wrap_socket(upstream.socket, server_side=True)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    relay = (FOLDER / "relay.conf").read_text().replace("collect.example.org", f"127.0.0.1:{upstream.server_port}")
    for old, new in (
        ("listen 443", f"listen 127.0.0.1:{port}"),
        ("/etc/nginx/tls/fullchain.pem", chain),
        ("/etc/nginx/tls/privkey.pem", key),
        ("/etc/ssl/certs/ca-certificates.crt", chain),
        ("proxy_ssl_server_name on;", "proxy_ssl_server_name on; proxy_ssl_name x;"),  # that of the certificate
        ("http {", "http { " + " ".join(f"{one}_temp_path {tmp_path / one};" for one in _TEMPORARY)),
    ):
        assert old in relay
        relay = relay.replace(old, str(new))
    (tmp_path / "relay.conf").write_text(f"daemon off; pid {tmp_path / 'pid'};\n{relay}")
    log = tmp_path / "log"
    with log.open("w") as said:
        process = subprocess.Popen(["nginx", "-c", tmp_path / "relay.conf", "-e", log], stderr=said)
    small, large = bytes(300), bytes(60_000)
    try:
        with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False) as device:
            for _ in range(300):
                with contextlib.suppress(httpx.ConnectError):
                    assert device.get("/schema").status_code == 404
                    break
                time.sleep(0.1)
            odd = {"User-Agent": "ada", "Cookie": "ada=1", "X-Forwarded-For": "1.2.3.4", "X-Ada": "1"}
            assert device.post("/reports", content=small).status_code == 201
            assert device.post("/reports?ada=1", content=small, headers=odd).status_code == 201
            assert device.post("/%72eports", content=iter([small])).status_code == 201
            assert device.post("/reports", content=large).status_code == 201
            assert device.post("/reports", content=bytes(70_000)).status_code == 413
            assert [device.request(one, "/reports", content=small).status_code for one in ("PUT", "ADA")] == [403, 403]
            upstream.shutdown()
            upstream.server_close()
            assert device.post("/reports", content=small).status_code == 502
    finally:
        upstream.server_close()
        process.terminate()
        process.wait()
    assert [body for *_, body in heads] == [small] * 3 + [large]
    assert heads[0] == heads[1] == heads[2]
    assert heads[0][0] == "POST /reports HTTP/1.0"
    assert {name for name, _ in heads[0][1]} == {"Host", "Content-Type", "Connection", "Content-Length"}
    assert "127.0.0.1" not in log.read_text()  # which a device that fails to reach the server would leave


def engine():
    """The command of a container engine that runs here, or None."""
    for name in ("docker", "podman"):
        if shutil.which(name) and not subprocess.run([name, "info"], capture_output=True).returncode:
            return name if not subprocess.run([name, "compose", "version"], capture_output=True).returncode else None
    return None


@pytest.mark.soak
def test_the_services_start_and_answer(tmp_path):
    """Builds the image, which takes minutes."""
    name = engine()
    if name is None:
        pytest.skip("no container engine with compose runs here")
    shutil.copytree(FOLDER.parent, tmp_path / "source", ignore=shutil.ignore_patterns(".git", ".venv", "build", "site"))
    folder = tmp_path / "source" / "deploy"
    for made in ("secrets", "tls"):
        (folder / made).mkdir()
    (folder / "secrets/schema.json").write_text(label_schema().text)
    SERVER_KEY.write(folder / "secrets/server.key")
    (folder / "secrets/token.key").touch()
    for made, text in (("admin.token", TOKEN), ("password", "p"), ("pgpass", "database:*:*:sfumato:p")):
        (folder / "secrets" / made).write_text(f"{text}\n")
    for path in (folder / "secrets").iterdir():
        path.chmod(0o600)
        if path.name != "password":
            shutil.chown(path, 10001, 10001)
    certify(folder / "tls", "privkey.pem", "fullchain.pem")
    compose = [name, "compose", "-f", str(folder / "compose.yaml")]
    try:
        subprocess.run([*compose, "up", "--build", "--wait", "--wait-timeout", "900"], check=True)
        asked = ["wget", "-q", "--no-check-certificate", "-O", "-", "https://127.0.0.1/readyz"]
        said = subprocess.run([*compose, "exec", "-T", "proxy", *asked], check=True, capture_output=True)
        assert json.loads(said.stdout) == {"ready": True}
    finally:
        subprocess.run([*compose, "down", "--volumes"], check=False)
