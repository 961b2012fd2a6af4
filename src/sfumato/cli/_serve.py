"""`sfumato serve`: answer requests for predictions of a finished run."""

from __future__ import annotations

import csv
import io
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from filelock import FileLock

from sfumato._files import read_secret, whole_file
from sfumato._optional import LIGHT, check_installed
from sfumato._validate import fail
from sfumato.cli import _listening as listening
from sfumato.cli._calibrating import stored_counts
from sfumato.cli._completing import complete_run
from sfumato.cli._newest import learned, run_of
from sfumato.cli._options import of
from sfumato.cli._verified import verified
from sfumato.errors import InputError
from sfumato.method._decisions import Decision

if TYPE_CHECKING:
    from fastapi import FastAPI

    from sfumato.evaluation._source import Source
    from sfumato.graph._graph import Graph
    from sfumato.method._plan import Fitted
    from sfumato.method.predictions import Predictions
    from sfumato.serving._served import Served

_KEY_BYTES = 32
_HEADER = "node,token"
_MOST_BYTES = 1 << 20


def serve(
    run: Path = typer.Argument(
        ...,
        help="The folder of a run, or a ledger: its newest run, found again at each SIGHUP.",
        autocompletion=complete_run,
    ),
    host: str = typer.Option("127.0.0.1", "--host", help="The address to listen on."),
    port: int = typer.Option(8766, "--port", min=0, max=65535, help="The port to listen on; 0 takes a free one."),
    token_key: Path = typer.Option(
        "serve.key",
        "--token-key",
        help="File with the secret that tokens of nodes follow from; made if it is needed. Graphs that share ids need one each.",
    ),
    tokens: Path | None = typer.Option(
        None,
        "--tokens",
        help="Write the table of tokens (node, token) here, for a newer run again. Hand each node its own, and nobody else's.",
    ),
    coverage: float | None = of("coverage"),
    each_class: bool = of("each_class"),
    positive: str | None = of("positive"),
    threshold: str | None = of("threshold"),
    class_weight: str | None = of("class_weight"),
    certificate: Path | None = typer.Option(None, "--certificate", help="TLS certificate chain, as PEM."),
    key: Path | None = typer.Option(None, "--key", help="Private key of the certificate, as PEM."),
    trusted_proxy: list[str] = listening.TRUSTED_PROXY,
    admin_token_file: Path | None = typer.Option(
        None,
        "--admin-token-file",
        help="File with a token for GET /metrics, made if it is absent. Else nobody gets that.",
    ),
) -> None:
    """Give predictions of a run over HTTP until Ctrl-C. This spends nothing.

    GET /predictions/NODE answers for one node, POST /predictions for many, GET /run says what is protected and who may see what.
    Where the certificate shows a prediction to its own node only, a request needs the token of this node (see --tokens), and
    many at once are refused. With --coverage answers hold a set of classes, with --threshold whether the node is chosen. SIGHUP
    reads the run folder and the certificate again, without a gap. Nodes that arrived after the run are answered too, from what
    was released for them. A run that `sfumato verify` refuses is not served.
    """
    check_installed(*LIGHT, "fastapi", "uvicorn", "httptools", "prometheus_client")
    from sfumato.web._http import Limits, WebServer
    from sfumato.web._logs import log_as_json

    listening.check_tls(certificate, key)
    door = listening.door_for(trusted_proxy)
    decision = Decision(coverage, each_class, positive, threshold, class_weight=class_weight)
    served = _read(run, decision)
    if tokens is not None:
        _check_tokens(tokens, token_key, served)
    hang_ups: list[Callable[[], None]] = []
    app = partial(_app, run, decision, served, token_key, tokens, admin_token_file, hang_ups)
    server = WebServer(app, Limits(body_bytes=_MOST_BYTES), door, certificate, key, hang_ups)
    with listening.bind(host, port) as bound:
        listening.load_tls(server.config)
        log_as_json()
        listening.warn_of_plain_text(host, certificate, "predictions and tokens")
        who = "anyone" if served.is_public else "each node, with its token"
        address = listening.address_of(host, bound, certificate)
        listening.tell(f"Predictions for {who} at {address}/predictions/NODE (Ctrl-C stops)")
        server.run([bound])


def _app(
    run: Path,
    decision: Decision,
    first: Served,
    token_key: Path,
    tokens: Path | None,
    admin_token_file: Path | None,
    hang_ups: list[Callable[[], None]],
) -> FastAPI:
    from sfumato.serving._app import create_app

    secret = None if first.is_public else _secret(token_key)
    read = [first]

    def load() -> Served:
        served = read.pop() if read else _read(run, decision)
        if tokens is not None and secret is not None and not served.is_public:
            _write_tokens(tokens, secret, served)
        return served

    app = create_app(load, secret, None if admin_token_file is None else listening.admin_token(admin_token_file))
    hang_ups.append(app.state.read_again)
    return app


def _read(run: Path, decision: Decision) -> Served:
    from sfumato.cli._arrivals import check_trained
    from sfumato.cli._collected import graph_of_run
    from sfumato.evaluation._source import Source
    from sfumato.method._answers import predictions_of
    from sfumato.serving._served import Served

    run = run_of(run)
    verified(run)
    fitted = learned(run)
    check_trained(run)
    late: tuple[Predictions, ...] = ()
    if fitted.collection is not None:
        graph = graph_of_run(run, fitted)
    else:
        source = Source.of_run(run)
        graph = source.with_roles_of(source.load(), fitted)
        late = _arrived(run, fitted, graph, source, decision)
    protected = decision.coverage is not None and "labels" not in fitted.plan.unit.public
    counts = stored_counts(run, fitted) if protected else None
    return Served(fitted.certificate.values, predictions_of(fitted, graph, None, decision, counts), late)


def _arrived(run: Path, fitted: Fitted, graph: Graph, source: Source, decision: Decision) -> tuple[Predictions, ...]:
    """Predictions of the nodes that arrived after a run, from what was released for them; no edge is read, nothing is spent.

    Where a decision cannot be made for nodes of which no validation node is like them, they are answered without it.
    """
    from sfumato.cli._arrivals import FOLDER, stored_batches
    from sfumato.method._answers import predictions_of

    if not (run / FOLDER).is_dir():
        return ()
    batches, _ = stored_batches(run, fitted.as_fitted(graph).graph, source)
    found = []
    for _, late, newcomers in batches:
        try:
            found.append(predictions_of(late, newcomers, None, decision))
        except InputError:
            found.append(predictions_of(late, newcomers))
    return tuple(found)


def _secret(path: Path) -> bytes:
    if not path.exists():
        with FileLock(path.with_name(path.name + ".lock"), mode=0o600):
            if not path.exists():  # another first start may have made it meanwhile
                with whole_file(path, 0o600) as file:
                    file.write(secrets.token_hex(_KEY_BYTES).encode() + b"\n")
    text = read_secret(path).strip()
    try:
        secret = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        secret = b""
    if len(secret) != _KEY_BYTES:
        raise InputError(f"Expected {path.name} to hold 64 hexadecimal digits. Remove the file to get a new secret.")
    return secret


def _check_tokens(path: Path, token_key: Path, served: Served) -> None:
    if served.is_public:
        raise InputError("Expected no --tokens for a run whose predictions anyone may see. Drop it.")
    if path.exists():
        with path.open("rb") as file:
            is_table = file.read(len(_HEADER) + 1) == f"{_HEADER}\n".encode()
    else:
        is_table = path.resolve() != token_key.resolve()
    if not is_table:
        raise fail("--tokens", str(path), "to be a new file, or a table of tokens to replace", "Name another file.")


def _write_tokens(path: Path, secret: bytes, served: Served) -> None:
    from sfumato.serving._served import token_of

    with whole_file(path, 0o600) as binary:
        file = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        writer = csv.writer(file, lineterminator="\n")
        file.write(f"{_HEADER}\n")
        writer.writerows((node, token_of(secret, node)) for node in served.rows)
        file.detach()
