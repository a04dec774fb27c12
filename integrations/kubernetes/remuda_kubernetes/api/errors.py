"""The errors of calls of the Kubernetes API: one per reaction of a caller."""

from __future__ import annotations

from http import HTTPStatus


class ApiError(Exception):
    """`code`: the HTTP status; 0: there was no answer."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(f"{reason} ({code})" if code else reason)
        self.reason = reason
        self.code = code


class NotFound(ApiError):
    """The object does not exist."""


class Conflict(ApiError):
    """The object has changed, or exists, or is bound already."""


class Expired(ApiError):
    """The version from which to watch is too old: list again."""


class Rejected(ApiError):
    """The API server does not accept this call. Trying it again does not help."""


class Away(ApiError):
    """The API server is not reached, overloaded or failing. Try again."""


_BY_CODE: dict[int, type[ApiError]] = {
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.GONE: Expired,
    HTTPStatus.TOO_MANY_REQUESTS: Away,
    HTTPStatus.REQUEST_TIMEOUT: Away,
    # A token that has expired is renewed before the next try.
    HTTPStatus.UNAUTHORIZED: Away,
}


def error_of(code: int, reason: str) -> ApiError:
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Away(reason, code)
    return _BY_CODE.get(code, Rejected)(reason, code)
