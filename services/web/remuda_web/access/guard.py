"""The guard in front of the application: it sets the caller of a request, or refuses the request.

A program brings a bearer token. What a browser sends by itself (a cookie, a client certificate, its place on this
machine) could be used by any page that it shows, so requests that change something have to come from our own page then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from remuda_bus.settings import is_loopback
from remuda_operations.operator_api.messages import Caller
from remuda_operations.operators import Operator
from remuda_proto.access_list import AccessList
from remuda_web import limits, problems
from remuda_web.callers import set_caller, set_sender
from remuda_web.problems import Problem
from remuda_web.web_page import is_public

CHALLENGE: Final = 'Bearer realm="remuda"'
LOGIN: Final = "/login"
EVERYBODY: Final = AccessList(everyone=True)
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
# Paths below which nothing changes anything.
_READING: Final = "/ws/v1/"

ByToken = Callable[[str], Awaitable[Operator | None]]
ByConnection = Callable[[Scope], Operator | None]


@dataclass(frozen=True, slots=True)
class Ways:
    """`by_token`: whose a bearer token is. `by_connection`: who sends a request without one, by what browsers send by
    themselves. Each may raise Problem. `login`: people can log in at /login. `url`: the setting `web.url`."""

    by_token: Sequence[ByToken] = ()
    by_connection: Sequence[ByConnection] = ()
    login: bool = False
    url: str | None = None


class Guard:
    """Answers 401 to every request for data whose sender is not known. `read_all`: the operators who read everything;
    the others read about queues that they may submit to."""

    def __init__(self, app: ASGIApp, ways: Ways, read_all: AccessList = EVERYBODY) -> None:
        self._app = app
        self._ways = ways
        self._read_all = read_all

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_public(scope["path"]):
            sender = partial(self._operator, scope, Headers(scope=scope))
            try:
                operator = await sender()
                set_caller(scope, Caller(operator, self._read_all.allows(operator.name, operator.groups)))
                set_sender(scope, sender)
            except Problem as problem:
                refusal = problems.answer(problem.status, problem.detail, problem.more)
                if problem.status == 401:
                    refusal.headers["WWW-Authenticate"] = CHALLENGE
                await refusal(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _operator(self, scope: Scope, headers: Headers) -> Operator:
        given = headers.get("authorization")
        if given is not None:
            scheme, _, token = given.partition(" ")
            for of_token in self._ways.by_token if scheme.lower() == "bearer" else ():
                if (found := await of_token(token.strip())) is not None:
                    return found
            raise self._unknown("the bearer token is not known here")
        for of_connection in self._ways.by_connection:
            if (found := of_connection(scope)) is not None:
                if refusal := cross_site(scope, headers, self._ways.url):
                    raise Problem(403, refusal)
                return found
        raise self._unknown("a bearer token is needed")

    def _unknown(self, reason: str) -> Problem:
        return Problem(401, reason, {"login": LOGIN} if self._ways.login else None)


class LocalOnly:
    """Answers 403 to requests that a browser sends for a page of another machine. Every such page could read the data
    otherwise: the answers of `/ws/v1` allow it (CORS), and a foreign name may resolve to this address (DNS
    rebinding). Everybody else acts as `operator`, if there is one."""

    def __init__(self, app: ASGIApp, operator: Operator | None = None) -> None:
        self._app = app
        self._caller = Caller(operator, reads_all=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            refusal = _foreign(headers) or cross_site(scope, headers)
            if refusal:
                await problems.answer(403, refusal)(scope, receive, send)
                return
            set_caller(scope, self._caller)
        await self._app(scope, receive, send)


class Unguarded:
    """Something else protects the port: whoever gets here reads everything and cannot act."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            set_caller(scope, Caller(reads_all=True))
        await self._app(scope, receive, send)


def cross_site(scope: Scope, headers: Headers, url: str | None = None) -> str:
    """Why a request is refused that changes something and that a browser sends for the page of another site; "": it is
    not. Browsers name the site (`Origin`) in each such request; other programs need not. `url`: of our own page, where
    a proxy forwards requests with another host."""
    if scope["method"] in _SAFE or scope["path"].startswith(_READING):
        return ""
    origin, host = headers.get("origin"), headers.get("host", "")
    if origin is not None and origin.partition("://")[2] != host and origin != _origin_of(url):
        return f"origin {origin[: limits.SHOWN_CHARACTERS]!r}: only the page of this web service may change something"
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return "sec-fetch-site: only the page of this web service may change something"
    return ""


def _origin_of(url: str | None) -> str:
    """As browsers write it: without the port that the scheme implies, and in lower case."""
    parts = urlsplit(url or "")
    implied = {"http": ":80", "https": ":443"}.get(parts.scheme, "")
    return f"{parts.scheme}://{parts.netloc.lower().removesuffix(implied)}"


def _foreign(headers: Headers) -> str:
    for name, prefix in (("host", "//"), ("origin", "")):
        value = headers.get(name, "")
        if value and not _is_local(prefix + value):
            shown = value[: limits.SHOWN_CHARACTERS]
            return f"{name} {shown!r}: expected this machine, as no tokens are set (web.tokens)"
    return ""


def _is_local(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
