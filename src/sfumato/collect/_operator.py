"""Who is the operator: whoever sends the admin token. Wrong tokens are answered, and counted by address, at a limited rate."""

from __future__ import annotations

import hmac

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBasic, HTTPBasicCredentials, HTTPBearer
from starlette.exceptions import HTTPException
from starlette.requests import Request  # noqa: TC002  FastAPI reads annotations while it runs

from sfumato.collect._refusals import RefusalError
from sfumato.web._addresses import caller
from sfumato.web._limits import Buckets

_WRONG_A_SECOND, _WRONG_AT_ONCE = 1.0, 30.0
_BEARER, _BASIC = HTTPBearer(auto_error=False), HTTPBasic(auto_error=False)


class Operator:
    """The checks of an admin ``token`` that calls of the operator depend on. A right token is answered always."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._wrong = Buckets(_WRONG_A_SECOND, _WRONG_AT_ONCE)

    async def check_bearer(
        self,
        request: Request,
        bearer: HTTPAuthorizationCredentials | None = Depends(_BEARER),  # noqa: B008
    ) -> None:
        """Refuse a change without the token; no browser sends a ``bearer`` token for another site."""
        self._check(request, None if bearer is None else bearer.credentials)

    async def check_admin(
        self,
        request: Request,
        bearer: HTTPAuthorizationCredentials | None = Depends(_BEARER),  # noqa: B008
        basic: HTTPBasicCredentials | None = Depends(_BASIC),  # noqa: B008
    ) -> None:
        """Refuse a request without the token, as ``bearer`` or ``basic``; browsers send it as a password."""
        self._check(request, bearer.credentials if bearer is not None else None if basic is None else basic.password)

    def is_asking(self, request: Request) -> bool:
        """Tell whether a ``request`` that anyone may send has the token as a bearer token."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(token.encode(), self._token)

    def _check(self, request: Request, token: str | None) -> None:
        if token is not None and hmac.compare_digest(token.encode(), self._token):
            return
        wait = 0.0 if token is None else self._wrong.take(caller(request.client))
        if wait:
            raise RefusalError(429, "This address sends too many wrong tokens. Look for the right one.", wait)
        detail = "Expected the admin token as a bearer token or as the password of a browser, got none or another."
        raise HTTPException(401, detail, {"www-authenticate": 'Basic realm="sfumato", charset="UTF-8"'})
