"""The application that serves a run: one prediction, many predictions, and facts of the run.

Predictions are those of the released state, computed before the first request, so requests read nothing private and spend
nothing. Where the certificate shows a prediction to its own node only, a request needs the token of this node, and requests for
many nodes are refused.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from sfumato import __version__
from sfumato.errors import InputError
from sfumato.serving.answers import ManyPredictions, Prediction, Refusal, RunFacts
from sfumato.serving.served import Served, token_of
from sfumato.web.pages import ONLY_OURS, PAGE_HEADERS, docs_page

MOST_NODES = 1000
_BEARER = HTTPBearer(auto_error=False, description="The token of the node that is asked for.")
_MEANING = {
    401: "The token of this node is missing or wrong.",
    403: "Predictions are for their own nodes alone.",
    404: "The run has no such node.",
    422: "The request is not of this form.",
}
_NOT_KEPT = {"cache-control": "no-store"}
_LOG = logging.getLogger("sfumato.serving")
Node = Annotated[str, Path(description="The id of a node of the run.")]
Nodes = Annotated[
    list[str],
    Body(embed=True, min_length=1, max_length=MOST_NODES, description=f"Up to {MOST_NODES:,} ids of nodes."),
]


def create_app(load: Callable[[], Served], token_key: bytes | None = None) -> FastAPI:
    """Build the application of a run, for uvicorn or another ASGI server.

    A hang-up signal (SIGHUP) reads the run again: requests are answered from the old one until the new one is ready, and from
    the old one still if it cannot be read, or if its predictions are for other eyes.

    Args:
        load: reads the run.
        token_key: 32 secret bytes, from which the tokens of nodes follow; None for a run whose predictions anyone may see.

    Raises:
        InputError: the run cannot be read, nobody may see its predictions, or ``token_key`` does not fit them.
    """
    service = _Service(load, token_key)
    app = FastAPI(
        title="Predictions of a private model",
        version=__version__,
        description="Served from what a run released. Its certificate says who may see what: GET /run.",
        lifespan=service.lifespan,
        exception_handlers={RequestValidationError: _malformed, 400: _malformed},
        **ONLY_OURS,
    )
    app.state.read_again = service.read_again
    facts, one, many = (
        _answers("The facts", RunFacts),
        _answers("The prediction", Prediction, 401, 404, 422),
        _answers("All predictions", ManyPredictions, 403, 404, 422),
    )
    app.get("/run", summary="Facts of the run", responses=facts)(service.run)
    app.get("/predictions/{node:path}", summary="The prediction of a node", responses=one)(service.one)
    app.post("/predictions", summary="The predictions of many nodes", responses=many)(service.many)

    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()), headers=PAGE_HEADERS)

    app.add_api_route("/docs", docs, include_in_schema=False)
    return app


class _Service:
    def __init__(self, load: Callable[[], Served], token_key: bytes | None) -> None:
        self._load, self._key = load, token_key
        self._served = self._read()
        self._asked = asyncio.Event()

    def _read(self) -> Served:
        served = self._load()
        if served.is_public != (self._key is None):
            eyes = "anyone" if self._key is None else "their own nodes alone"
            raise InputError(
                f"Expected a run whose predictions are for {eyes}, as this server says, got another. Start another server for it."
            )
        return served

    async def run(self) -> JSONResponse:
        """Return the method, what is protected at which epsilon, who may see what, the classes, and the number of nodes."""
        return JSONResponse(self._served.about())

    async def one(
        self, node: Node, token: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)] = None
    ) -> JSONResponse:
        """Return the class that is predicted for a node, and the probability of each class.

        Where predictions are for their own nodes alone, send the header Authorization: Bearer TOKEN, with the node's token.
        """
        if self._key is not None:
            given = "" if token is None else token.credentials
            if not hmac.compare_digest(token_of(self._key, node).encode(), given.encode()):
                raise HTTPException(
                    401,
                    "Expected the token of this node. The certificate shows a prediction to its own node only.",
                    {"WWW-Authenticate": "Bearer"},
                )
        return JSONResponse(_found(self._served, node), headers=_NOT_KEPT)

    async def many(self, nodes: Nodes) -> JSONResponse:
        """Return the predictions of many nodes, in the order of the request; all or none."""
        if self._key is not None:
            raise HTTPException(403, "The certificate shows a prediction to its own node only. Ask for one node.")
        served = self._served
        return JSONResponse({"predictions": [_found(served, node) for node in nodes]}, headers=_NOT_KEPT)

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        """Listen for hang-up signals, where this is the process's own loop."""
        if threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.read_again)
        reading = asyncio.create_task(self._follow())
        yield
        reading.cancel()

    def read_again(self) -> None:
        """Have the run read again, once more if that is under way."""
        self._asked.set()

    async def _follow(self) -> None:
        while await self._asked.wait():
            self._asked.clear()
            try:
                self._served = await asyncio.to_thread(self._read)
            except Exception as error:  # whatever is wrong with the new run, the old one is served
                said = f"{type(error).__name__}: {error}"
                _LOG.error("The run could not be read again, and the one before is still served. %s", said)
            else:
                _LOG.info("The run was read again: %d nodes.", len(self._served.predictions.nodes))


async def _malformed(_request: Request, _error: Exception) -> JSONResponse:
    detail = (
        f'Expected a JSON object {{"nodes": [...]}} with 1 to {MOST_NODES:,} ids as texts, and the header '
        "Content-Type: application/json."
    )
    return JSONResponse({"detail": detail}, 422)


def _answers(good: str, form: type, *refusals: int) -> dict[int | str, dict[str, Any]]:
    described: dict[int | str, dict[str, Any]] = {200: {"description": f"{good}.", "model": form}}
    return described | {status: {"description": _MEANING[status], "model": Refusal} for status in refusals}


def _found(served: Served, node: str) -> dict[str, Any]:
    told = served.tell(node)
    if told is None:
        raise HTTPException(404, f"Expected a node of the run, got {node[:64]!r}.")
    return told
