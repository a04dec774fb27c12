"""The API of the configuration: queries on `remuda.api.config.<kind>`, changes on
`remuda.configuration.<operator>.<groups>.<verb>`.

Request and reply are JSON. A text with problems is answered with `problems`, each with its path and line; any other
refusal is a service error: 400 a request that is not as expected, 403 not allowed, 404 no such version, 409 a conflict
with the version in force or with the file.
"""

from __future__ import annotations

import base64
import difflib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

from remuda_bus import subjects
from remuda_bus.bus import Message, Refused
from remuda_config import limits
from remuda_config.problems import Invalid
from remuda_config.shell.access import ConfigurationAccess
from remuda_config.shell.active_configuration import CONFLICT, ActiveConfiguration
from remuda_config.shell.changes import AcceptedText, Change, now_ms
from remuda_config.shell.rm_versions import RmVersions
from remuda_config.shell.version_store import StoredVersion
from remuda_config.shell.worker_pool import WorkerPool
from remuda_config.versions import ROLLBACK
from remuda_config.wire import bounded_problems
from remuda_operations.operators import operator_of
from remuda_operations.queries.fields import expect_fields

NOT_FOUND = 404
Document = dict[str, Any]
# The fields of each request.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "get": (), "check": ("text", "configuration"), "history": ("rm",), "show": ("version", "rm"),
    "diff": ("from", "to", "text", "rm"), "update": ("text", "edits", "base", "message", "for_ms", "overwrite"),
    "rollback": ("version", "base", "message", "overwrite"), "confirm": ("version",),
}  # fmt: skip
NO_FILE = (
    "the configuration service has no file, and serves its built-in default: the setting config.file names one, "
    "as `remuda up --config FILE` does"
)


class ConfigurationApi:
    def __init__(
        self, active: ActiveConfiguration | None, pool: WorkerPool, rms: RmVersions, access: ConfigurationAccess
    ) -> None:
        self._active = active
        self._pool = pool
        self._rms = rms
        self._access = access
        self.queries: Mapping[str, Callable[[Document], Awaitable[Document]]] = {
            "get": self._get, "check": self._check, "history": self._history, "show": self._show, "diff": self._diff,
        }  # fmt: skip
        self._changes: Mapping[str, Callable[[Document, str], Awaitable[Document]]] = {
            "update": self._update, "rollback": self._rollback, "confirm": self._confirm,
        }  # fmt: skip

    async def answer(self, message: Message) -> bytes:
        """Returns the reply to a query. Raises Refused."""
        kind = message.subject.rpartition(".")[2]
        if kind not in self.queries:
            raise Refused(f"unknown query {kind!r}: expected {', '.join(self.queries)}", NOT_FOUND)
        return await _answered(self.queries[kind](_request(kind, message)))

    async def change(self, message: Message) -> bytes:
        """Returns the reply to a change. Raises Refused."""
        _, _, name, groups, verb = message.subject.split(".")
        if verb not in self._changes:
            raise Refused(f"unknown change {verb!r}: expected {', '.join(self._changes)}", NOT_FOUND)
        try:
            operator = operator_of(name, groups)
        except ValueError as error:
            raise Refused(str(error)) from error
        if self._active is None:
            raise Refused(NO_FILE, CONFLICT)
        await self._active.loaded()
        current = self._active.current
        self._access.check(operator, current.configuration if current is not None else None)
        return await _answered(self._changes[verb](_request(verb, message), operator.name))

    # Queries

    async def _get(self, request: Document) -> Document:
        current = await self._current()
        return {"version": current.version.summary(), "text": current.text}

    async def _check(self, request: Document) -> Document:
        text = _text(request)
        try:
            configuration = await self._pool.load(text, "check", limits.LOAD_FILE_CPU_S)
        except Invalid as invalid:
            return {"valid": False, "problems": _problems(invalid)}
        answer: Document = {"valid": True, "problems": [], "checksum": configuration.checksum}
        if text.strip():
            answer |= await self._pool.advise(text)
        if request.get("configuration") is True:  # the parsed text, for a preview
            answer["configuration"] = base64.b64encode(configuration.SerializeToString()).decode()
        return answer

    async def _history(self, request: Document) -> Document:
        if "rm" in request:
            return {"versions": [version.summary() for version in await self._rms.history(_rm(request))]}
        current = await self._current()
        assert self._active is not None
        history = await self._active.versions.history()
        return {"active": current.number, "versions": [version.summary() for version in history]}

    async def _show(self, request: Document) -> Document:
        stored = await self._find(request, _number(request, "version"))
        version = stored.version
        return {"version": {**version.summary(), "changes": list(version.changes)}, "text": stored.text}

    async def _diff(self, request: Document) -> Document:
        """The changes between two versions, or from a version to a text, by setting and by line."""
        before = (await self._find(request, _number(request, "from"))).text
        after = _text(request) if "text" in request else (await self._find(request, _number(request, "to"))).text
        try:
            changes = await self._pool.compare(before, after)
        except ValueError as error:
            raise Refused(str(error)) from error
        lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=3))
        return {"changes": changes, "lines": lines}

    # Changes

    async def _update(self, request: Document, by: str) -> Document:
        assert self._active is not None
        base = _number(request, "base") if request.get("base") is not None else None
        if "edits" in request:
            current = await self._current()
            base = base if base is not None else current.number
            text = await self._edited(current.text, request["edits"])
        else:
            text = _text(request)
        for_ms = _for_ms(request)
        until_ms = now_ms() + for_ms if for_ms else 0
        change = Change(
            by, _message(request), base=base, until_ms=until_ms, overwrites=bool(request.get("overwrite", False))
        )
        return await self._made(await self._active.update(text, change))

    async def _edited(self, text: str, edits: Any) -> str:
        if not isinstance(edits, list) or not all(isinstance(one, dict) for one in edits):
            raise Refused("edits: expected a list of objects")
        try:
            return await self._pool.edit(text, edits)
        except ValueError as error:
            raise Refused(str(error)) from error

    async def _rollback(self, request: Document, by: str) -> Document:
        assert self._active is not None
        number = _number(request, "version")
        base = _number(request, "base") if request.get("base") is not None else None
        stored = await self._find({}, number)
        message = _message(request) or f"back to version {number}"
        change = Change(
            by, message, ROLLBACK, base=base, restores=number, overwrites=bool(request.get("overwrite", False))
        )
        return await self._made(await self._active.update(stored.text, change))

    async def _confirm(self, request: Document, by: str) -> Document:
        assert self._active is not None
        number = _number(request, "version") if request.get("version") is not None else None
        return {"version": (await self._active.confirm(by, number)).summary(), "changed": False}

    async def _made(self, changed: bool) -> Document:
        version = (await self._current()).version
        answer = {"version": version.summary(), "changed": changed, "changes": list(version.changes) if changed else []}
        assert self._active is not None
        return {**answer, "problems": [asdict(problem) for problem in self._active.problems]}

    async def _current(self) -> AcceptedText:
        if self._active is None:
            raise Refused(NO_FILE, NOT_FOUND)
        await self._active.loaded()
        if self._active.current is None:
            raise Refused(f"{self._active.file} has not had a valid text yet", NOT_FOUND)
        return self._active.current

    async def _find(self, request: Document, number: int) -> StoredVersion:
        if "rm" in request:
            stored = await self._rms.find(_rm(request), number)
        else:
            await self._current()
            assert self._active is not None
            stored = await self._active.versions.find(number)
        if stored is None:
            raise Refused(f"there is no version {number}, or it is no longer kept", NOT_FOUND)
        return stored


async def _answered(answer: Awaitable[Document]) -> bytes:
    try:
        return json.dumps(await answer, ensure_ascii=False).encode()
    except Invalid as invalid:
        return json.dumps({"problems": _problems(invalid)}, ensure_ascii=False).encode()


def _problems(invalid: Invalid) -> list[Document]:
    return [asdict(one) for one in bounded_problems(invalid.problems)]


def _request(kind: str, message: Message) -> Document:
    """Raises Refused unless the payload is a JSON object with fields of this kind; an empty payload is an empty one."""
    try:
        request = json.loads(message.payload or b"{}")
    except (ValueError, RecursionError) as error:
        raise Refused(f"the request is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise Refused("the request: expected a JSON object")
    expect_fields(request, FIELDS[kind])
    return request


def _text(request: Document) -> str:
    text = request.get("text")
    if not isinstance(text, str):
        raise Refused("text: expected the text of a queues.yaml")
    return text


def _message(request: Document) -> str:
    """Why the change is made."""
    message = request.get("message", "")
    most = limits.VERSION_MESSAGE_CHARACTERS
    if not isinstance(message, str) or len(message) > most or not (message.isprintable() or "\n" in message):
        raise Refused(f"message: expected a text of at most {most:,} characters")
    return message


def _number(request: Document, key: str) -> int:
    number = request.get(key)
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**53:
        raise Refused(f"{key}: expected the number of a version")
    return number


def _for_ms(request: Document) -> int:
    for_ms = request.get("for_ms") or 0
    least, most = limits.STAGE_MIN_MS, limits.STAGE_MAX_MS
    if isinstance(for_ms, bool) or not isinstance(for_ms, int) or (for_ms and not least <= for_ms <= most):
        raise Refused(f"for_ms: expected {least:,} to {most:,}, the time after which the change is rolled back")
    return for_ms


def _rm(request: Document) -> str:
    try:
        return subjects.check_rm_id(str(request["rm"]))
    except ValueError as error:
        raise Refused(str(error)) from error
