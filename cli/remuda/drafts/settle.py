"""Makes a draft obey the rules of queues.yaml, so that the configuration checker finds nothing.

The checker says which value is wrong; there is no second copy of its rules here. An amount above a bound is lowered
to the bound, since the tighter one of the two held anyway. Guaranteed resources that exceed those of their parent are
scaled down. Any other wrong value is removed. Each change is noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml
from ruamel.yaml.comments import CommentedMap, CommentedSeq

from remuda_config import Invalid, findings_in
from remuda_config.problems import Path, spell
from remuda_proto.names import GROUP, USER
from remuda_proto.quantities import show_amount

from .. import limits
from .amounts import kubernetes_amount, read, rounded
from .notes import Notes
from .tree import children, plain_name, text_of

Where = Callable[[Path], str]
_YES, _NO = {"true", "yes", "on"}, {"false", "no", "off"}


class NotSettled(Exception):
    """The draft has problems that no change of single values mends."""


def settle(draft: CommentedMap, notes: Notes, where: Where | None = None) -> None:
    """Changes the draft until it is valid. `where`: the place of a path in the source; default: the name of the
    queue. Raises NotSettled with the problems that remain.
    """
    for _ in range(limits.SETTLING_ROUNDS):
        findings = _findings(draft)
        if not findings:
            return
        settling = _Settling(draft, notes, where or (lambda path: queue_at(draft, path)))
        # From the end of lists to their beginning, so that positions stay right.
        changed = [settling.mend(path, message) for path, message in sorted(findings, key=_position, reverse=True)]
        if not any(changed):
            break
    findings = _findings(draft)
    if findings:
        raise NotSettled("; ".join(f"{spell(path)}: {message}" for path, message in findings[:3]))


def _findings(draft: CommentedMap) -> list[tuple[Path, str]]:
    """The checker's findings on the draft. The text with comments takes most of the time, so it is made when no other
    finding is left."""
    try:
        quick = yaml.dump(_plain(draft), Dumper=_Dumper, sort_keys=False, allow_unicode=True)
        return findings_in(quick) or findings_in(text_of(draft))
    except Invalid as error:
        raise NotSettled(str(error)) from None


class _Word(str):
    """`yes` without quotes, which is a text for YAML 1.2, and a flag for remuda."""


class _Dumper(yaml.CSafeDumper):  # type: ignore[misc]  # PyYAML has no types
    pass


_Dumper.add_representer(_Word, lambda dumper, word: dumper.represent_scalar("tag:yaml.org,2002:bool", str(word)))


def _plain(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {str(key): _plain(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_plain(value) for value in node]
    for kind in (bool, int, float):
        if isinstance(node, kind):
            return kind(node)
    if type(node) is str and node.lower() in _YES | _NO:
        return _Word(node)
    return node if node is None else str(node)


def _position(finding: tuple[Path, str]) -> list[tuple[int, str]]:
    return [(part, "") if isinstance(part, int) else (-1, part) for part in finding[0]]


def queue_at(draft: Any, path: Path) -> str:
    """Returns the full name of the queue that a path leads into, else the path."""
    names = [str(node.get("name", "")) for node, part in _steps(draft, path) if "queues" in part]
    return ".".join(names) or spell(path)


def _steps(draft: Any, path: Path) -> Iterator[tuple[CommentedMap, Path]]:
    """The mappings along a path, outermost first, each with the last two parts that lead to it."""
    node = draft
    for place, part in enumerate(path):
        try:
            node = node[part]
        except (KeyError, IndexError, TypeError):
            return
        if isinstance(node, CommentedMap):
            yield node, path[max(0, place - 1) : place + 1]


class _Settling:
    """One round. A value is changed once in a round."""

    def __init__(self, draft: CommentedMap, notes: Notes, where: Where) -> None:
        self._draft = draft
        self._notes = notes
        self._where = where
        self._done: set[Path] = set()

    def mend(self, path: Path, message: str) -> bool:
        """Whether the draft has changed."""
        if path in self._done or any(path[: len(done)] == done for done in self._done):
            return False
        place = self._where(path)
        why = f"remuda refuses it: {message}"
        if change := self._lower(path) or self._rewrite(path, message):
            what, kept = change
            self._notes.near(place, what, why, f"{kept[:1].upper()}{kept[1:]}.")
        elif (removed := self._remove(path)) is not None:
            self._notes.none(place, removed, why, "It is left out.")
        else:
            return False
        self._done.add(path)
        return True

    # Amounts and counts: the tighter bound.

    def _lower(self, path: Path) -> tuple[str, str] | None:
        if len(path) < 2 or path[-1] == "maxapplications":
            return self._lower_count(path)
        if path[-2] not in ("guaranteed", "max", "maxresources"):
            return None
        owner, name = self._get(path[:-1]), str(path[-1])
        amount = read(name, owner.get(name)) if isinstance(owner, Mapping) else None
        if amount is None:
            return None
        kind = str(path[-2])
        queues = list(self._queues(path))
        own = queues[-1] if queues else CommentedMap()
        if kind == "maxresources":
            bounds = [self._amount(own, "max", name), *self._limits_above(path, queues, name)]
        elif "childtemplate" in path:
            template = self._get(path[: path.index("childtemplate") + 1])
            above = [self._amount(one, "max", name) for one in queues]
            bounds = [self._amount(template, "max", name)] if kind == "guaranteed" else above
        elif kind == "guaranteed":
            bounds = [self._amount(own, "max", name)]
        else:
            bounds = [self._amount(one, "max", name) for one in queues[:-1]]
        least = min((bound for bound in bounds if bound is not None), default=None)
        if least is not None and least < amount:
            owner[name] = _written(name, least)
            return f"{kind} {name} {show_amount(name, amount)}", f"it is {show_amount(name, least)}, the tighter bound"
        return self._scale(own, name, amount)

    def _scale(self, parent: CommentedMap, name: str, room: int) -> tuple[str, str] | None:
        """Scale the guaranteed amounts below a queue down to what it has."""
        below = [(one, promised) for one in children(parent) if (promised := _promised(one, name))]
        total = sum(promised for _, promised in below)
        if total <= room:
            return None
        for one, promised in below:
            _set_promised(one, name, rounded(name, promised * room // total))
        return f"guaranteed {name} of the queues below", f"they are scaled down to {show_amount(name, room)} in sum"

    def _lower_count(self, path: Path) -> tuple[str, str] | None:
        if not path or path[-1] != "maxapplications":
            return None
        owner = self._get(path[:-1])
        if not isinstance(owner, CommentedMap):
            return None
        queues = list(self._queues(path))
        if "limits" in path:
            counts = [self._count(queues[-1]) if queues else 0, *map(self._count, self._same_names_above(path, queues))]
        else:
            counts = [self._count(one) for one in (queues if "childtemplate" in path else queues[:-1])]
        least = min((count for count in counts if count), default=0)
        before = self._count(owner)
        if not least or (before and before <= least):
            return None
        owner["maxapplications"] = least
        return f"maxapplications {before or 'without a value'}", f"it is {least}, as above"

    def _limits_above(self, path: Path, queues: list[CommentedMap], name: str) -> Iterator[int | None]:
        for limit in self._same_names_above(path, queues):
            resources = limit.get("maxresources")
            yield read(name, resources.get(name)) if isinstance(resources, Mapping) else None

    def _same_names_above(self, path: Path, queues: list[CommentedMap]) -> Iterator[CommentedMap]:
        """The limits of the queues above that have a user or group in common with the limit of the path."""
        own = self._get(path[: path.index("limits") + 2])
        for one in queues[:-1]:
            for limit in one.get("limits") or ():
                if isinstance(limit, CommentedMap) and any(
                    set(map(str, limit.get(kind) or ())) & set(map(str, own.get(kind) or ()))
                    for kind in ("users", "groups")
                ):
                    yield limit

    # Values that have a readable form.

    def _rewrite(self, path: Path, message: str) -> tuple[str, str] | None:
        if not path or not isinstance(owner := self._get(path[:-1]), CommentedMap) or path[-1] not in owner:
            return None
        key = str(path[-1])
        if key in ("submitacl", "adminacl"):
            return self._rewrite_access(owner, key, path)
        if key == "name" and "queues" in path[-3:] and isinstance(owner["name"], str | int) and owner["name"] != "":
            before = str(owner["name"])
            siblings = self._get(path[:-2])
            taken = {str(one.get("name")).lower() for one in siblings if isinstance(one, Mapping) and one is not owner}
            owner["name"] = plain_name(before, taken)
            return f"queue {before}", f"the queue is called {owner['name']}"
        if (value := _unquoted(str(owner[key]), message)) is not None:
            before, owner[key] = owner[key], value
            return f"{key}: {before!r}", f"it is {str(value).lower()}, without quotes"
        is_amount = len(path) > 1 and path[-2] in ("guaranteed", "max", "maxresources")
        if is_amount and owner[key] is not None and read(key, owner[key]) is None:
            before = str(owner[key])
            try:
                owner[key] = _written(key, kubernetes_amount(key, before))
            except ValueError:
                return None
            return f"{key}: {before}", f"it is written as {owner[key]}"
        return None

    def _rewrite_access(self, owner: CommentedMap, key: str, path: Path) -> tuple[str, str] | None:
        before = str(owner[key])
        users, *others = re.sub(r",\s+", ",", before).split(" ")
        groups = [name for field in others for name in field.split(",")]
        kept_users = [name for name in users.split(",") if USER.matches(name)]
        kept_groups = [name for name in groups if GROUP.matches(name)]
        after = " ".join([",".join(kept_users), ",".join(kept_groups)]).rstrip()
        if after == before or isinstance(owner[key], list | dict):
            return None
        owner[key] = after
        return f"{key}: {before!r}", f"it is {after!r}: names that can be names"

    # Everything else.

    def _remove(self, path: Path) -> str | None:
        """Remove the value, or the rule or entry of a list that makes no sense without it, and return what it was."""
        if "placementrules" in path and "filter" not in path and len(path) > path.index("placementrules") + 1:
            known = self._get(path[:-1])
            if not (
                isinstance(known, CommentedMap) and path[-1] in known and path[-1] not in ("name", "value", "parent")
            ):
                path = path[: path.index("placementrules") + 2]
                self._done.add(path)
        elif path and path[-1] == "name" and "queues" in path[-3:]:
            path = path[:-1]
        owner = self._get(path[:-1]) if path else None
        last = path[-1] if path else None
        has_it = last in owner if isinstance(owner, CommentedMap) else isinstance(last, int) and last < len(owner or ())
        if not isinstance(owner, CommentedMap | CommentedSeq) or not has_it:
            return None
        removed = owner[last]
        del owner[last]
        if not owner and path[-2:-1] == ("resources",):
            del self._get(path[:-2])["resources"]
        return _name_of(last, removed)

    # Looking around.

    def _get(self, path: Path) -> Any:
        node: Any = self._draft
        for part in path:
            try:
                node = node[part]
            except (KeyError, IndexError, TypeError):
                return None
        return node

    def _queues(self, path: Path) -> Iterator[CommentedMap]:
        """The queues along the path, root first."""
        yield from (node for node, part in _steps(self._draft, path) if part[:1] == ("queues",))

    @staticmethod
    def _amount(queue: Any, kind: str, name: str) -> int | None:
        resources = queue.get("resources") if isinstance(queue, Mapping) else None
        amounts = resources.get(kind) if isinstance(resources, Mapping) else None
        return read(name, amounts.get(name)) if isinstance(amounts, Mapping) else None

    @staticmethod
    def _count(node: Any) -> int:
        value = node.get("maxapplications") if isinstance(node, Mapping) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _promised(queue: CommentedMap, name: str) -> int:
    own = _Settling._amount(queue, "guaranteed", name)
    return own if own is not None else sum(_promised(one, name) for one in children(queue))


def _set_promised(queue: CommentedMap, name: str, amount: int) -> None:
    """Set the guaranteed amount of a queue, where it is written: in the queue, or in the queues below."""
    if _Settling._amount(queue, "guaranteed", name) is not None:
        queue["resources"]["guaranteed"][name] = _written(name, amount)
        return
    below = [(one, promised) for one in children(queue) if (promised := _promised(one, name))]
    total = sum(promised for _, promised in below)
    for one, promised in below:
        _set_promised(one, name, rounded(name, promised * amount // total))


def _written(name: str, amount: int) -> int | str:
    text = show_amount(name, amount)
    return int(text) if text.isdecimal() else text


def _unquoted(text: str, message: str) -> int | bool | None:
    if "without quotes" not in message:
        return None
    if "true or false" in message:
        return text.lower() in _YES if text.lower() in _YES | _NO else None
    return int(text) if text.isdecimal() else None


def _name_of(last: str | int | None, removed: Any) -> str:
    if isinstance(last, str):
        return last if isinstance(removed, CommentedMap | CommentedSeq) else f"{last}: {removed}"
    if isinstance(removed, Mapping):
        return " ".join(str(removed[key]) for key in ("name", "limit", "value") if removed.get(key)) or "an entry"
    return str(removed)
