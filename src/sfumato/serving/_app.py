"""The application that serves a run: one prediction, many predictions, and facts of the run.

Predictions are those of the released state, computed before the first request, so requests read nothing private and spend
nothing. Where the certificate shows a prediction to its own node only, a request needs the token of this node, and requests for
many nodes are refused.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from fastapi import Body, Depends, FastAPI, Path, Request
from fastapi.exception_handlers import http_exception_handler
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from sfumato._version import __version__
from sfumato.errors import InputError
from sfumato.serving._served import Served, token_of
from sfumato.web._addresses import caller
from sfumato.web._limits import Buckets
from sfumato.web._logs import Log
from sfumato.web._metrics import CONTENT_TYPE, Measured, WebMetrics
from sfumato.web._pages import ONLY_OURS, PAGE_HEADERS, docs_page

MOST_NODES = 1000
_WRONG_A_SECOND, _WRONG_AT_ONCE = 1.0, 30.0
_BEARER = HTTPBearer(auto_error=False, description="The token of the node that is asked for.")
_MEANING = {
    401: "The token of this node is missing or wrong.",
    403: "Predictions are for their own nodes alone.",
    404: "The run has no such node.",
    422: "The request is not of this form.",
    429: "The address sends too many wrong tokens.",
}
_NOT_KEPT = {"cache-control": "no-store"}
_LOG = logging.getLogger("sfumato.serving")
Node = Annotated[str, Path(description="The id of a node of the run.")]
Nodes = Annotated[
    list[str],
    Body(embed=True, min_length=1, max_length=MOST_NODES, description=f"Up to {MOST_NODES:,} ids of nodes."),
]


def create_app(load: Callable[[], Served], token_key: bytes | None = None, admin_token: str | None = None) -> FastAPI:
    """Build the application of a run, for uvicorn or another ASGI server.

    ``app.state.read_again()`` reads the run again: requests are answered from the old one until the new one is ready, and from
    the old one still if it cannot be read, or if its predictions are for other eyes.

    Tokens of nodes follow from ``token_key``, 32 secret bytes; without it anyone may see the predictions.
    """
    service = _Service(load, token_key, admin_token)
    app = FastAPI(
        title="Predictions of a private model",
        version=__version__,
        description="Served from what a run released. Its certificate says who may see what: GET /run.",
        lifespan=service.lifespan,
        exception_handlers={
            RequestValidationError: service.malformed,
            400: service.malformed,
            HTTPException: service.refuse,
        },
        **ONLY_OURS,
    )
    app.state.read_again, app.state.metrics = service.read_again, service.metrics
    app.add_middleware(Measured, metrics=service.metrics)
    for name in ("healthz", "readyz", *["metrics"] * (admin_token is not None)):
        app.add_api_route(f"/{name}", getattr(service, f"get_{name}"), include_in_schema=False)
    facts, one, many = (
        _answers("The facts", RunFacts),
        _answers("The prediction", Prediction, 401, 404, 422, 429),
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
    def __init__(self, load: Callable[[], Served], token_key: bytes | None, admin_token: str | None) -> None:
        self._load, self._key, self._admin = load, token_key, admin_token
        self.metrics, self._log = WebMetrics(), Log(_LOG)
        self._wrong = Buckets(_WRONG_A_SECOND, _WRONG_AT_ONCE)
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
        self,
        request: Request,
        node: Node,
        token: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)] = None,
    ) -> JSONResponse:
        """Return the class that is predicted for a node, and the probability of each class.

        Where predictions are for their own nodes alone, send the header Authorization: Bearer TOKEN, with the node's token.
        """
        if self._key is not None:
            given = "" if token is None else token.credentials
            if not hmac.compare_digest(token_of(self._key, node).encode(), given.encode()):
                detail = "Expected the token of this node. The certificate shows a prediction to its own node only."
                raise self._wrong_token(request, detail)
        return JSONResponse(_found(self._served, node), headers=_NOT_KEPT)

    async def many(self, nodes: Nodes) -> JSONResponse:
        """Return the predictions of many nodes, in the order of the request; all or none."""
        if self._key is not None:
            raise HTTPException(403, "The certificate shows a prediction to its own node only. Ask for one node.")
        served = self._served
        return JSONResponse({"predictions": [_found(served, node) for node in nodes]}, headers=_NOT_KEPT)

    async def get_healthz(self) -> JSONResponse:
        return JSONResponse({"alive": True})

    async def get_readyz(self) -> JSONResponse:
        return JSONResponse({"ready": True})

    async def get_metrics(
        self, request: Request, token: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)] = None
    ) -> Response:
        given = "" if token is None else token.credentials
        if not hmac.compare_digest((self._admin or "").encode(), given.encode()):
            raise self._wrong_token(request, "Expected the admin token as a bearer token, got none or another.")
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)

    async def refuse(self, request: Request, error: HTTPException) -> Response:
        """Log a refusal, without the node that was asked for."""
        self._log.say(f"refused {error.status_code}", facts={"reason": _MEANING.get(error.status_code, "")})
        return await http_exception_handler(request, error)

    async def malformed(self, _request: Request, _error: Exception) -> JSONResponse:
        self._log.say("refused 422", facts={"reason": _MEANING[422]})
        detail = (
            f'Expected a JSON object {{"nodes": [...]}} with 1 to {MOST_NODES:,} ids as texts, and the header '
            "Content-Type: application/json."
        )
        return JSONResponse({"detail": detail}, 422)

    def _wrong_token(self, request: Request, detail: str) -> HTTPException:
        """The refusal of a wrong token, or of the many of one address. A right one is answered always."""
        wait = self._wrong.take(caller(request.client))
        if wait:
            again = {"Retry-After": str(math.ceil(wait))}
            return HTTPException(429, "This address sends too many wrong tokens. Look for the right one.", again)
        return HTTPException(401, detail, {"WWW-Authenticate": "Bearer"})

    @asynccontextmanager
    async def lifespan(self, _app: FastAPI) -> AsyncIterator[None]:
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
                _LOG.info("The run was read again: %d nodes.", len(self._served.rows))


def _answers(good: str, form: type, *refusals: int) -> dict[int | str, dict[str, Any]]:
    described: dict[int | str, dict[str, Any]] = {200: {"description": f"{good}.", "model": form}}
    return described | {status: {"description": _MEANING[status], "model": Refusal} for status in refusals}


def _found(served: Served, node: str) -> dict[str, Any]:
    told = served.tell(node)
    if told is None:
        raise HTTPException(404, f"Expected a node of the run, got {node[:64]!r}.")
    return told


@dataclass
class Prediction:
    """A prediction is what is told about a node.

    Args:
        node: id of the node.
        predicted: the class that it is told.
        probabilities: the model's probability of each class.
        source: ``known`` if ``predicted`` is the public label of a training node.
        set: the classes in the node's set, if the server has a coverage.
        chosen: whether the node is chosen, if the server has a threshold.
    """

    node: str
    predicted: str
    probabilities: dict[str, float]
    source: Literal["model", "known"]
    set: list[str] = field(default_factory=list)
    chosen: bool = False


@dataclass
class ManyPredictions:
    """The predictions of many nodes, in the order of the request, are one answer.

    Args:
        predictions: one for each node.
    """

    predictions: list[Prediction]


@dataclass
class RunFacts:
    """The facts of a run are what anyone may know of it.

    Args:
        method: its name in the catalog.
        protects: what is protected, in words.
        unit: the unit of privacy.
        claim: epsilon and delta of the certificate.
        who_may_see: who may see what.
        classes: names of the classes.
        nodes: how many nodes there are.
        decided: what sets and choices mean, in words.
    """

    method: str
    protects: str
    unit: dict[str, Any]
    claim: dict[str, float]
    who_may_see: dict[str, list[str]]
    classes: list[str]
    nodes: int
    decided: list[str]


@dataclass
class Refusal:
    """A refusal says why there is no answer.

    Args:
        detail: a sentence, and its remedy.
    """

    detail: str
