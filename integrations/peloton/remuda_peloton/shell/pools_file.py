"""Pools from a YAML file. A problem names the line and the field.

pools:
  - name: batch
    cpu: {reservation: 10, limit: 40, share: 2, type: STATIC}    # cores; gpu: devices; memory, disk: MB
    controller_limit: 20                                         # percent of the reservation
    slack_limit: 20
    owning_team: data
    description: nightly jobs
    pools:                                                       # below it
      - name: nightly
        cpu: {limit: 10}
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import yaml

from remuda_proto.peloton.api.v0.respool import respool_pb2 as respool
from remuda_proto.remuda.resmgr.v1 import pools_pb2 as pb

from .. import limits
from ..rules.pools import ELASTIC, STATIC
from ..rules.resources import KINDS
from ..wire.pool_fields import OF_KIND, PERCENTS, TEXTS, set_field, text_of

PLAIN: Final = (*PERCENTS, *TEXTS)
Node: TypeAlias = Any  # yaml.Node: the library has no types
# Of a file of Peloton's own command line. `policy` and `parent` are read, and decided by the path and the system.
RESPOOL_TEXTS: Final = {"owningteam": "owning_team", "description": "description"}
RESPOOL_PERCENTS: Final = {"controllerlimit": "controller_limit", "slacklimit": "slack_limit"}
RESPOOL_TYPES: Final = {"0": ELASTIC, "1": ELASTIC, "2": STATIC}
RESPOOL_FIELDS: Final = (
    "name", "resources", "ldapgroups", "policy", "parent", "changelog", *RESPOOL_TEXTS, *RESPOOL_PERCENTS
)  # fmt: skip
FIELDS: Final = ("name", *KINDS, *PLAIN, "ldap_groups", "pools")


class PoolsFileError(ValueError):
    """The text does not describe pools. `line`: from 1; 0: not known."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}" if line else message)
        self.line = line


class PoolsFile:
    """A text that describes pools. `request`: the request that applies it. `lines`: the line of each pool, by its
    path."""

    def __init__(self, text: str) -> None:
        """Raises PoolsFileError."""
        self.request = pb.ApplyPoolsRequest()
        self.lines: dict[str, int] = {}
        root = _composed(text)
        if root is None:
            raise PoolsFileError(0, "the text is empty, expected `pools`")
        top = _mapping(root, "the text", ("pools",))
        if "pools" not in top:
            raise _wrong(root, "the text is empty, expected `pools`")
        self._add("", top["pools"])

    def problem(self, answer: pb.ApplyPoolsResponse) -> PoolsFileError:
        """The problem that the resource manager has answered, with the line of the pool."""
        what = f"pool {answer.path}: {answer.problem}" if answer.path else answer.problem
        return PoolsFileError(self.lines.get(answer.path, 0), what)

    def _add(self, above: str, pools: Node) -> None:
        if above.count("/") >= limits.POOL_DEPTH:
            raise _wrong(pools, f"pools of {above[:64]!r} are too deep, expected at most {limits.POOL_DEPTH} levels")
        for node in _list(pools, "pools"):
            fields = _mapping(node, "a pool", FIELDS)
            if "name" not in fields:
                raise _wrong(node, "name is missing, expected the name of the pool")
            name = _scalar(fields["name"], "name")
            if not name or "/" in name:
                raise _wrong(fields["name"], f"name is {name[:64]!r}, expected a name without /")
            path = f"{above}/{name}"
            if path in self.lines:
                raise _wrong(node, f"name is {name[:64]!r} again, as in line {self.lines[path]}")
            if len(self.lines) >= limits.POOLS:  # an alias may stand for many
                raise _wrong(node, f"there are more than {limits.POOLS} pools, expected fewer")
            self.lines[path] = node.start_mark.line + 1
            self.request.pools.add(path=path, config=_config(fields))
            if "pools" in fields:
                self._add(path, fields["pools"])


def fields_of_respool(text: str) -> dict[str, str]:
    """The fields of one pool, by the keys of `pool_fields.set_field`, from a file as Peloton's own command
    `respool create` reads it. Its keys are in lower case, each kind of resource is an item of a list, and the type is a
    number or a name. Raises PoolsFileError."""
    root = _composed(text)
    if root is None:
        raise PoolsFileError(0, "the text is empty, expected a resource pool")
    top = _mapping(root, "the pool", RESPOOL_FIELDS, fold=True)
    fields = {key: _scalar(top[name], name) for name, key in RESPOOL_TEXTS.items() if name in top}
    for name, key in RESPOOL_PERCENTS.items():
        if name in top:
            given = _mapping(top[name], name, ("maxpercent",), fold=True)
            if "maxpercent" in given:
                fields[key] = _scalar(given["maxpercent"], f"{name}.maxpercent")
    if "ldapgroups" in top and _list(top["ldapgroups"], "ldapgroups"):
        raise _wrong(top["ldapgroups"], "ldapgroups: expected none; a file for `remuda pool apply` has ldap_groups")
    for node in _list(top["resources"], "resources") if "resources" in top else ():
        given = _mapping(node, "a resource", ("kind", *OF_KIND), fold=True)
        if "kind" not in given:
            raise _wrong(node, f"kind is missing, expected one of {', '.join(KINDS)}")
        kind = _scalar(given.pop("kind"), "kind").lower()
        for name, value in given.items():
            written = _scalar(value, name)
            fields[f"{kind}.{name}"] = RESPOOL_TYPES.get(written, written) if name == "type" else written
    return fields


def _composed(text: str) -> Node | None:
    try:
        return yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 0
        raise PoolsFileError(line, f"no YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise PoolsFileError(0, f"no YAML: {str(error)[:300]}") from None


def _config(fields: dict[str, Node]) -> respool.ResourcePoolConfig:
    config = respool.ResourcePoolConfig()
    for kind in KINDS:
        if kind not in fields:
            continue
        given = _mapping(fields[kind], kind, OF_KIND)
        if "limit" not in given:
            raise _wrong(
                fields[kind], f"{kind}.limit is missing, expected an amount; a kind that is not named has none"
            )
        for name, node in given.items():
            _set(config, f"{kind}.{name}", node)
    for name in PLAIN:
        if name in fields:
            _set(config, name, fields[name])
    if "ldap_groups" in fields:
        config.ldapGroups.extend(_scalar(one, "ldap_groups") for one in _list(fields["ldap_groups"], "ldap_groups"))
    return config


def _set(config: respool.ResourcePoolConfig, key: str, node: Node) -> None:
    try:
        set_field(config, key, _scalar(node, key))
    except PoolsFileError:
        raise
    except ValueError as error:
        raise _wrong(node, str(error)) from None


def _mapping(node: Node, what: str, known: tuple[str, ...], fold: bool = False) -> dict[str, Node]:
    """`fold`: keys are read in lower case."""
    if not isinstance(node, yaml.MappingNode):
        raise _wrong(node, f"{what} is {_shown(node)}, expected a mapping with some of {', '.join(known)}")
    found: dict[str, Node] = {}
    for key, value in node.value:
        name = str(key.value).lower() if fold else str(key.value)
        if name not in known:
            raise _wrong(key, f"{what} has {name[:64]!r}, expected some of {', '.join(known)}")
        if name in found:
            raise _wrong(key, f"{what} has {name} twice, expected it once")
        found[name] = value
    return found


def _list(node: Node, what: str) -> list[Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise _wrong(node, f"{what} is {_shown(node)}, expected a list")
    return list(node.value)


def _scalar(node: Node, key: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise _wrong(node, f"{key} is {_shown(node)}, expected one value")
    try:
        return text_of(key, str(node.value))
    except ValueError as error:
        raise _wrong(node, str(error)) from None


def _shown(node: Node) -> str:
    return repr(str(node.value)[:64]) if isinstance(node, yaml.ScalarNode) else f"a {node.id}"


def _wrong(node: Node, message: str) -> PoolsFileError:
    return PoolsFileError(node.start_mark.line + 1, message)
