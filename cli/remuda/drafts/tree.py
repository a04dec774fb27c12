"""The parts of a draft: a tree of YAML with comments, in the shape of queues.yaml."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from remuda_proto.names import QUEUE

from .amounts import written
from .sources import yaml

ROOT = "root"
COMMENT_COLUMNS = 100
# What to do about topologies of nodes, in notes.
NAME_LEVELS = "Name its levels in `topology` by attributes that the resource manager reports with each node."
PACK_APPLICATIONS = "`nodesortpolicy.pack: application` keeps an application on few nodes."


@dataclass(slots=True)
class Queue:
    """A queue with the keys that it needs. Amounts are in base units; a guaranteed amount of 0 is none, a maximum of 0
    admits nothing. `comment`: above the queue. `parent`: it is none of the leaves, although it has no queue below.
    """

    name: str
    comment: str = ""
    guaranteed: Mapping[str, int] = field(default_factory=dict)
    maximum: Mapping[str, int] = field(default_factory=dict)
    maxapplications: int = 0
    properties: Mapping[str, str] = field(default_factory=dict)
    submitacl: str | None = None
    adminacl: str = ""
    limits: Sequence[CommentedMap] = ()
    queues: Sequence[Queue] = ()
    parent: bool = False

    def keys(self, columns: int) -> CommentedMap:
        """`columns`: before its dash."""
        made = CommentedMap(name=self.name)
        if self.parent:
            made["parent"] = True
        guaranteed = {key: amount for key, amount in self.guaranteed.items() if amount}
        resources = {key: flow(written(of)) for key, of in (("guaranteed", guaranteed), ("max", self.maximum)) if of}
        if resources:
            made["resources"] = CommentedMap(resources)
        if self.maxapplications:
            made["maxapplications"] = self.maxapplications
        if self.properties:
            made["properties"] = CommentedMap((key, _quoted(value)) for key, value in self.properties.items())
        for key, access in (("submitacl", self.submitacl), ("adminacl", self.adminacl or None)):
            if access is not None:
                made[key] = SingleQuotedScalarString(access)
        if self.limits:
            made["limits"] = CommentedSeq(self.limits)
        if self.queues:
            made["queues"] = _listed(self.queues, columns + 4)
        return made


def _listed(queues: Sequence[Queue], columns: int) -> CommentedSeq:
    made = CommentedSeq(one.keys(columns) for one in queues)
    for place, one in enumerate(queues):
        if one.comment:
            plain = "".join(c if c.isprintable() else " " for c in one.comment)
            lines = "\n".join(textwrap.wrap(plain, max(20, COMMENT_COLUMNS - columns)))
            made.yaml_set_comment_before_after_key(place, before=lines, indent=columns)
    return made


def document(
    queues: Sequence[Queue], *, submitacl: str = "*", rules: Iterable[Mapping[str, Any]] = (),
    preemption: bool | None = None, packs_nodes: bool = False, root: Mapping[str, Any] | None = None,
    topology: Iterable[Mapping[str, str]] = (), backfills: bool = False,
) -> CommentedMap:  # fmt: skip
    """A draft with a partition `default`. `queues`: those below root. `submitacl`, `root`: keys of the root queue.
    `preemption` None: the default, which is on. `topology`: its levels."""
    made = CommentedMap(name="default")
    if packs_nodes:
        made["nodesortpolicy"] = CommentedMap(type="binpacking")
    if levels := list(topology):
        made["topology"] = CommentedSeq(flow(level) for level in levels)
    if backfills:
        made["backfill"] = CommentedMap(policy="easy")
    if preemption is not None:
        made["preemption"] = CommentedMap(enabled=preemption)
    if rules := list(rules):
        made["placementrules"] = CommentedSeq(CommentedMap(rule) for rule in rules)
    top = CommentedMap(name=ROOT, submitacl=SingleQuotedScalarString(submitacl), **(root or {}))
    if queues:
        top["queues"] = _listed(queues, 10)
    made["queues"] = CommentedSeq([top])
    return CommentedMap(partitions=CommentedSeq([made]))


def limit(
    *,
    users: Iterable[str] = (),
    groups: Iterable[str] = (),
    maximum: Mapping[str, int] | None = None,
    applications: int = 0,
) -> CommentedMap:
    made = CommentedMap()
    for key, names in (("users", users), ("groups", groups)):
        if names := list(names):
            made[key] = flow([SingleQuotedScalarString(name) if name == "*" else name for name in names])
    if maximum:
        made["maxresources"] = flow(written(maximum))
    if applications:
        made["maxapplications"] = applications
    return made


def _quoted(value: str) -> str:
    """Numbers in quotes, so that readers see that a property is a text."""
    return SingleQuotedScalarString(value) if value.lstrip("+-").isdecimal() else value


def flow(value: Mapping[str, Any] | list[Any]) -> Any:
    """Returns the value for one line: `{vcore: 64, memory: 256Gi}`."""
    made = CommentedMap(value) if isinstance(value, Mapping) else CommentedSeq(value)
    made.fa.set_flow_style()
    return made


def text_of(draft: CommentedMap, head: Iterable[str] = ()) -> str:
    """Returns the text of queues.yaml. `head`: lines of the comment at its top, without `#`."""
    out = io.StringIO()
    for line in head:
        out.write(f"# {line}".rstrip() + "\n")
    yaml().dump(draft, out)
    return out.getvalue()


def plain_name(name: str, taken: set[str]) -> str:
    """Returns the nearest allowed name of a queue that is not taken (compared in lower case), and adds it to
    `taken`. A dot becomes `_dot_`, as in placement rules.
    """
    text = name.replace(".", "_dot_")
    text = "".join(c if QUEUE.matches(c) else "_" for c in text)[:64] or "queue"
    if not QUEUE.matches(text):
        text = f"{text[:60]}_1"
    made, count = text, 1
    while made.lower() in taken:
        count += 1
        end = f"_{count}"
        made = text[: 64 - len(end)] + end
    taken.add(made.lower())
    return made


class _Node(Protocol):
    @property
    def below(self) -> Iterable[_Node]: ...


def is_below(one: _Node, other: _Node) -> bool:
    """Whether `one` is `other`, or below it."""
    return one is other or any(is_below(one, child) for child in other.below)


def children(node: Any) -> Iterator[CommentedMap]:
    """Yields the queues below a queue or partition, whatever else stands there."""
    found = node.get("queues") if isinstance(node, Mapping) else None
    yield from (one for one in (found if isinstance(found, list) else ()) if isinstance(one, CommentedMap))
