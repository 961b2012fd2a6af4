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
from sfumato.errors import SfumatoError
from sfumato.serving.served import Served, token_of
from sfumato.web.pages import PAGE_HEADERS, docs_page

MOST_NODES = 1000
_BEARER = HTTPBearer(auto_error=False, description="The token of the node that is asked for.")
_MEANING = {
    401: "The token of this node is missing or wrong.",
    403: "Predictions are for their own nodes alone.",
    404: "The run has no such node.",
}
_LOG = logging.getLogger("sfumato.serving")
Node = Annotated[str, Path(min_length=1, max_length=512, description="The id of a node of the run.")]
Nodes = Annotated[
    list[Annotated[str, Body(min_length=1, max_length=512)]],
    Body(embed=True, min_length=1, max_length=MOST_NODES, description=f"Up to {MOST_NODES:,} ids of nodes."),
]


def create_app(load: Callable[[], Served], token_key: bytes) -> FastAPI:
    """Build the application of a run, for uvicorn or another ASGI server.

    A hang-up signal (SIGHUP) reads the run again: requests are answered from the old one until the new one is ready, and from
    the old one still if it cannot be read.

    Args:
        load: reads the run.
        token_key: 32 secret bytes, from which the tokens of nodes follow.

    Raises:
        InputError: the run cannot be read, or nobody may see its predictions.
    """
    service = _Service(load, token_key)
    app = FastAPI(
        title="Predictions of a private model",
        version=__version__,
        description="Served from what a run released. Its certificate says who may see what: GET /run.",
        redoc_url=None,
        docs_url=None,
        lifespan=service.lifespan,
        exception_handlers={RequestValidationError: _malformed},
    )
    app.get("/run", summary="Facts of the run")(service.run)
    app.get("/predictions/{node}", summary="The prediction of a node", responses=_of(401, 404))(service.one)
    app.post("/predictions", summary="The predictions of many nodes", responses=_of(403, 404))(service.many)

    async def docs() -> HTMLResponse:
        return HTMLResponse(docs_page(app.openapi()), headers=PAGE_HEADERS)

    app.add_api_route("/docs", docs, include_in_schema=False)
    return app


class _Service:
    def __init__(self, load: Callable[[], Served], token_key: bytes) -> None:
        self._load, self._key, self._served = load, token_key, load()
        self._reading: asyncio.Task[None] | None = None

    async def run(self) -> JSONResponse:
        """Return the method, what is protected at which epsilon, who may see what, the classes, and the number of nodes."""
        return JSONResponse(self._served.about())

    async def one(
        self, node: Node, token: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)] = None
    ) -> JSONResponse:
        """Return the class that is predicted for a node, and the probability of each class.

        Where predictions are for their own nodes alone, send the token of the node: `Authorization: Bearer TOKEN`.
        """
        served = self._served
        if not served.is_public:
            given = "" if token is None else token.credentials
            if not hmac.compare_digest(token_of(self._key, node).encode(), given.encode()):
                raise HTTPException(
                    401,
                    "Expected the token of this node. The certificate shows a prediction to its own node only.",
                    {"WWW-Authenticate": "Bearer"},
                )
        return JSONResponse(_found(served, node))

    async def many(self, nodes: Nodes) -> JSONResponse:
        """Return the predictions of many nodes, in the order of the request; all or none."""
        served = self._served
        if not served.is_public:
            raise HTTPException(403, "The certificate shows a prediction to its own node only. Ask for one node.")
        return JSONResponse({"predictions": [_found(served, node) for node in nodes]})

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
        """Listen for hang-up signals, where this is the process's own loop."""
        listens = threading.current_thread() is threading.main_thread()
        if listens:
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self.read_again)
        yield
        if listens:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    def read_again(self) -> None:
        """Begin to read the run again, unless that is under way."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        try:
            self._served = await asyncio.to_thread(self._load)
        except (SfumatoError, OSError) as error:
            _LOG.error("The run could not be read again, and the one before is still served: %s", error)
        else:
            _LOG.info("The run was read again: %d nodes.", len(self._served.predictions.nodes))


async def _malformed(_request: Request, _error: RequestValidationError) -> JSONResponse:
    detail = (
        f'Expected a JSON object {{"nodes": [...]}} with 1 to {MOST_NODES:,} ids as texts, each of 1 to 512 letters.'
    )
    return JSONResponse({"detail": detail}, 422)


def _of(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"description": _MEANING[status]} for status in statuses}


def _found(served: Served, node: str) -> dict[str, Any]:
    told = served.tell(node)
    if told is None:
        raise HTTPException(404, f"Expected a node of the run, got {node[:64]!r}.")
    return told
