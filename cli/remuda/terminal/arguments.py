"""Validation of command line arguments before they reach a subject, a path or a server: one function per kind.

Each returns the argument or raises UserError with the argument (shortened) and what was expected. The functions are
typer callbacks, so they return None for an option that was not given.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar, cast
from urllib.parse import urlsplit

from remuda_bus.subjects import PELOTON, is_peloton
from remuda_proto import quantities
from remuda_proto.durations import EXPECTED, milliseconds
from remuda_proto.names import ACTION_ID, RM_ID

from .. import limits
from ..errors import UserError

T = TypeVar("T", bound=str | None)
SCHEMES = ("nats", "tls", "ws", "wss")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
_TIME_OF_DAY = re.compile(r"[0-9]{1,2}:[0-9]{2}")
_INSTANCE = re.compile(r"[A-Za-z0-9_.:-]+")


def quoted(text: str) -> str:
    """Escapes and shortens a name for a message."""
    if len(text) <= limits.SHOWN_NAME_CHARACTERS:
        return repr(text)
    return f"{text[: limits.SHOWN_NAME_CHARACTERS]!r}... ({len(text):,} characters)"


def _passing_none(check: Callable[[str], str]) -> Callable[[T], T]:
    def checked(given: T) -> T:
        return cast(T, given if given is None else check(given))

    return checked


@_passing_none
def rm_id(text: str) -> str:
    """An rmID. It becomes part of subjects and keys."""
    if not RM_ID.matches(text):
        raise UserError(f"rmID {quoted(text)}: expected {RM_ID.expected}")
    return text


@_passing_none
def log_id(text: str) -> str:
    """An rmID, or the name of the log of a Peloton resource manager: `peloton.CLUSTER`."""
    if is_peloton(text):
        rm_id(text.removeprefix(f"{PELOTON}."))
        return text
    return rm_id(text)


def _identifier(kind: str, most: int = limits.LONGEST_IDENTIFIER_CHARACTERS) -> Callable[[T], T]:
    """An identifier that is sent inside a JSON request only."""

    @_passing_none
    def check(text: str) -> str:
        if not text or len(text) > most or _CONTROL.search(text):
            raise UserError(f"{kind} {quoted(text)}: expected 1 to {most:,} characters, no control characters")
        return text

    return check


application = _identifier("applicationID")
node = _identifier("nodeID")
uuid = _identifier("UUID")
partition_name = _identifier("partition", limits.LONGEST_PARTITION_CHARACTERS)
key = _identifier("allocationKey")
story_id = _identifier("ID")
queue = _identifier("queue", limits.LONGEST_QUEUE_CHARACTERS)
domain = _identifier("domain")
pool = _identifier("path of a pool", limits.LONGEST_QUEUE_CHARACTERS)


def partition(text: str) -> str:
    """ "": the partition `default`."""
    return partition_name(text) if text else text


def action_reason(text: str) -> str:
    """Free text for the log."""
    if len(text.encode(errors="surrogatepass")) > limits.LONGEST_REASON_BYTES or not text.isprintable():
        most = f"{limits.LONGEST_REASON_BYTES:,}"
        raise UserError(f"reason {quoted(text)}: expected at most {most} bytes, no control characters")
    return text


@_passing_none
def action_id(text: str) -> str:
    """The action ID that the text names, which becomes part of the log. Raises UserError."""
    if not ACTION_ID.matches(text):
        raise UserError(f"action ID {quoted(text)}: expected {ACTION_ID.expected}")
    return text


@_passing_none
def instance(text: str) -> str:
    """The name of a process. It becomes part of keys and subjects."""
    if len(text) > limits.LONGEST_INSTANCE_CHARACTERS or not _INSTANCE.fullmatch(text):
        most = limits.LONGEST_INSTANCE_CHARACTERS
        raise UserError(f"REMUDA_INSTANCE {quoted(text)}: expected 1 to {most} of A-Z a-z 0-9 _ . : -")
    return text


@_passing_none
def url(text: str) -> str:
    """Servers, separated by commas."""
    for server in text.split(","):
        _check_server(server.strip())
    return text


def _check_server(server: str) -> None:
    expected = f"expected {'|'.join(SCHEMES)}://HOST[:PORT], several separated by commas"
    wrong = UserError(f"NATS server {quoted(server)}: {expected}")
    if not server or len(server) > limits.LONGEST_URL_CHARACTERS or re.search(r"\s", server) or _CONTROL.search(server):
        raise wrong
    try:
        parts = urlsplit(server if "://" in server else f"nats://{server}")
        has_port = parts.port != 0  # raises ValueError where it is no number up to 65535
    except ValueError:
        raise wrong from None
    if parts.scheme not in SCHEMES or not parts.hostname or not has_port or len(parts.hostname) > 253:
        raise wrong
    if re.search(r"[^\w.:%-]", parts.hostname) or ".." in parts.hostname or parts.query or parts.fragment:
        raise wrong


def duration_s(text: str) -> float:
    """Seconds of a duration such as 500ms or 1m30s, as in queues.yaml."""
    ms = milliseconds(text)
    if not ms:
        raise UserError(f"duration {quoted(text)}: {EXPECTED}")
    return ms / 1_000


def path(given: Path | None) -> Path | None:
    """A file or directory, whether it exists or not."""
    if given is not None and ("\0" in str(given) or len(str(given)) > limits.LONGEST_PATH_CHARACTERS):
        most = limits.LONGEST_PATH_CHARACTERS
        raise UserError(f"path {quoted(str(given))}: expected at most {most:,} characters, none of them NUL")
    return given


def paths(given: list[Path]) -> list[Path]:
    """Several files."""
    for one in given:
        path(one)
    return given


def readable(option: str, given: Path) -> Path:
    """Returns an existing, readable file. The error message begins with `option`, which may be empty."""
    shown = f"{option} {given}".strip()
    try:
        if given.is_dir():
            raise UserError(f"{shown} is a directory, expected a file")
        with given.open("rb"):
            pass
    except FileNotFoundError:
        raise UserError(f"{shown}: no such file") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
    return given


def amount(text: str) -> tuple[str, int]:
    """A resource and an amount of it in base units: "vcore=100"."""
    name, _, quantity = text.partition("=")
    try:
        if name and quantity:
            return name, quantities.parse_amount(name, quantity)
        problem = "expected a resource and an amount, such as vcore=100"
    except ValueError as error:
        problem = str(error)
    raise UserError(f"{quoted(text)}: {problem}")


def time_ahead(text: str, now: datetime | None = None) -> int:
    """A time ahead, in ms since 1970: in so long ("2h"), the next time of day ("18:00"), or a date with a time; without
    a zone in that of this machine. `now`: with the zone."""
    now = now or datetime.now().astimezone()
    try:
        if ms := milliseconds(text):
            moment = now + timedelta(milliseconds=ms)
        elif _TIME_OF_DAY.fullmatch(text):
            hour, minute = map(int, text.split(":"))
            moment = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
            moment += timedelta(days=moment <= now)
        else:
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=now.tzinfo)
        at_ms = int(moment.timestamp() * 1_000)
    except (ValueError, OverflowError, OSError):
        at_ms = 0
    if at_ms <= now.timestamp() * 1_000:
        raise UserError(
            f"{quoted(text)}: expected a time ahead, such as 2h, 18:00, 2027-03-01T08:00 or 2027-03-01T08:00:00Z"
        )
    return at_ms
