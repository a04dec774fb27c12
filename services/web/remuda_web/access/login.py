"""The login of people at the OpenID provider: authorization code with PKCE (RFC 7636), and a session in a cookie.

The cookie is signed and has the operator's name and groups, so that any web service with the same `web.session_key`
takes it. Scripts cannot read it, and browsers do not send it with requests of other sites that change something.
"""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

import httpx2
from authlib.integrations.starlette_client import OAuthError
from fastapi import FastAPI, Request
from joserfc.errors import JoseError
from starlette.middleware.sessions import SessionMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Scope

from remuda_operations.operators import Operator
from remuda_web.access.guard import LOGIN, cross_site
from remuda_web.access.openid import Provider, unavailable
from remuda_web.problems import Problem
from remuda_web.settings import WebSettings

CALLBACK: Final = f"{LOGIN}/callback"
LOGOUT: Final = "/logout"
COOKIE: Final = "remuda_session"


class Logins:
    def __init__(self, provider: Provider, settings: WebSettings) -> None:
        self._provider = provider
        self._settings = settings

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application with the session of each request."""
        file = self._settings.session_key
        key = secrets.token_hex(32) if file is None else file.read_text().strip()
        return SessionMiddleware(
            app, key, COOKIE, max_age=self._settings.session_s, same_site="lax",
            https_only=self._base_is_https(),
        )  # fmt: skip

    def add_to(self, app: FastAPI) -> None:
        for path, handler, verb in (
            (LOGIN, self._begin, "GET"), (CALLBACK, self._end, "GET"), (LOGOUT, self._logout, "POST"),
        ):  # fmt: skip
            app.add_api_route(path, handler, methods=[verb], include_in_schema=False, response_class=Response)

    def operator(self, scope: Scope) -> Operator | None:
        """The operator of the session, until the session ends."""
        session = scope.get("session", {})
        if session.get("until", 0) <= time.time():
            return None
        return Operator(session["operator"], tuple(session["groups"]))

    async def _begin(self, request: Request) -> Response:
        seen = f"{request.url.scheme}://{request.headers.get('host', '')}"
        base = (self._settings.url or seen).rstrip("/")
        try:
            self._provider.check_metadata(await self._provider.client.load_server_metadata())
            request.session.clear()
            found: Response = await self._provider.client.authorize_redirect(request, f"{base}{CALLBACK}")
        except (httpx2.HTTPError, RuntimeError, ValueError) as error:
            raise unavailable(error) from None
        return found

    async def _end(self, request: Request) -> Response:
        client = self._provider.client
        try:
            token = await client.authorize_access_token(request)
            claims = dict(token.get("userinfo") or {})
            if "userinfo_endpoint" in client.server_metadata:  # an ID token may be without most claims
                claims = {**await self._more_of(token, claims), **claims}
        except (OAuthError, JoseError, KeyError) as error:
            raise Problem(401, f"the login has failed: {error}") from None
        except (httpx2.HTTPError, RuntimeError, ValueError) as error:
            raise unavailable(error) from None
        operator = self._provider.operator_in(claims)
        request.session.clear()
        request.session.update(
            operator=operator.name, groups=list(operator.groups), until=time.time() + self._settings.session_s
        )
        return RedirectResponse("/", 303, {"Cache-Control": "no-store"})

    async def _more_of(self, token: dict[str, Any], claims: dict[str, Any]) -> dict[str, Any]:
        found = dict(await self._provider.client.userinfo(token=token))
        if found.get("sub") != claims.get("sub"):  # as OpenID Connect Core 5.3.2 demands
            raise Problem(401, "the login has failed: the provider describes somebody else")
        return found

    async def _logout(self, request: Request) -> Response:
        if refusal := cross_site(request.scope, request.headers, self._settings.url):
            raise Problem(403, refusal)
        request.session.clear()
        return Response(status_code=204)

    def _base_is_https(self) -> bool:
        return self._settings.scheme == "https" or (self._settings.url or "").startswith("https:")
