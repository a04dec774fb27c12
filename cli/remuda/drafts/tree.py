"""The parts of a draft: a tree of YAML with comments, in the shape of queues.yaml."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import SingleQuotedScalarString

from remuda_proto.names import QUEUE

from .amounts import written
from .sources import yaml

ROOT = "root"
COMMENT_COLUMNS = 100
Properties = Mapping[str, str]
# What to do about topologies of nodes, in notes.
NAME_LEVELS = "Name its levels in `topology` by attributes that the resource manager reports with each node."
PACK_APPLICATIONS = "`nodesortpolicy.pack: application` keeps an application on few nodes."


def partition(
    queues: list[CommentedMap], *, submitacl: str = "*", rules: Iterable[Mapping[str, Any]] = (),
    preemption: bool | None = None, packs_nodes: bool = False, root: Mapping[str, Any] | None = None,
    topology: Iterable[Mapping[str, str]] = (), backfills: bool = False,
) -> CommentedMap:  # fmt: skip
    """A partition `default`. `queues`: those below root. `submitacl`, `root`: keys of the root queue. `preemption`
    None: the default, which is on. `topology`: its levels."""
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
    top = CommentedMap(name=ROOT)
    top["submitacl"] = SingleQuotedScalarString(submitacl)
    top.update(root or {})
    if queues:
        top["queues"] = CommentedSeq(queues)
    made["queues"] = CommentedSeq([top])
    return made


def document(partition: CommentedMap) -> CommentedMap:
    return CommentedMap(partitions=CommentedSeq([partition]))


def queue(
    name: str, *, guaranteed: Mapping[str, int] | None = None, maximum: Mapping[str, int] | None = None,
    maxapplications: int = 0, properties: Properties | None = None, submitacl: str | None = None,
    adminacl: str = "", limits: Iterable[CommentedMap] = (), queues: Iterable[CommentedMap] = (), parent: bool = False,
) -> CommentedMap:  # fmt: skip
    """A queue with the keys that it needs. Amounts are in base units; a guaranteed amount of 0 is none, a maximum of 0
    admits nothing."""
    made = CommentedMap(name=name)
    if parent:
        made["parent"] = True
    resources = CommentedMap()
    guaranteed = {key: amount for key, amount in (guaranteed or {}).items() if amount}
    for key, amounts in (("guaranteed", guaranteed), ("max", maximum or {})):
        if amounts:
            resources[key] = flow(written(amounts))
    if resources:
        made["resources"] = resources
    if maxapplications:
        made["maxapplications"] = maxapplications
    if properties:
        made["properties"] = CommentedMap((key, _quoted(value)) for key, value in properties.items())
    for key, access in (("submitacl", submitacl), ("adminacl", adminacl or None)):
        if access is not None:
            made[key] = SingleQuotedScalarString(access)
    if limits := list(limits):
        made["limits"] = CommentedSeq(limits)
    if queues := list(queues):
        made["queues"] = CommentedSeq(queues)
    return made


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


def annotate(queues: CommentedSeq, place: int, comment: str, indent: int) -> None:
    """Puts a comment above an entry of a list. `indent`: the columns before its dash."""
    plain = "".join(c if c.isprintable() else " " for c in comment)
    lines = "\n".join(textwrap.wrap(plain, max(20, COMMENT_COLUMNS - indent)))
    queues.yaml_set_comment_before_after_key(place, before=lines, indent=indent)


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


def children(node: Any) -> Iterator[CommentedMap]:
    """Yields the queues below a queue or partition, whatever else stands there."""
    found = node.get("queues") if isinstance(node, Mapping) else None
    yield from (one for one in (found if isinstance(found, list) else ()) if isinstance(one, CommentedMap))
