"""Files and tables of Slurm, as records with their places: slurm.conf, `scontrol show partition` and `show node`, the
file of `sacctmgr dump`, and the tables of `sacctmgr show assoc -P` and `show qos -P`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from .. import limits
from .amounts import Amounts
from .sources import File, NotReadable

Keys = dict[str, str]

_ENTRIES = ("nodename", "partitionname", "nodeset", "downnodes")
_SLURM = re.compile(
    r"^\s*(?:(?:PartitionName|NodeName|ClusterName|SlurmctldHost|ControlMachine|ControlAddr)\s*=\s*\S"
    r"|(?:Cluster|Parent|Account|QOS) - ')",
    re.IGNORECASE | re.MULTILINE,
)
_DUMP = re.compile(r"^(Cluster|Parent|Account|User|QOS) - '([^']*)'(.*)$", re.IGNORECASE)
_ASSOCIATIONS, _QOS = {"account"}, {"name", "priority"}
_UNSET = {"", "unlimited", "infinite", "none", "n/a", "(null)", "-1", "notset", "all"}

# Names of keys, by the spellings that Slurm has had for them.
_SPELLINGS = {
    "fairshare": ("share", "rawshares"),
    "maxjobs": ("maxrunningjobs", "maxjob"),
    "maxjobspu": ("maxjobsperuser",),
    "maxtrespu": ("maxtresperuser",),
    "maxjobspa": ("maxjobsperaccount",),
    "maxtrespa": ("maxtresperaccount",),
    "maxwall": ("maxwallduration", "maxwalldurationperjob"),
    "maxtres": ("maxtresperjob", "maxtrespj"),
    "maxtrespn": ("maxtrespernode",),
    "maxtresmins": ("maxtresminsperjob",),
    "maxsubmit": ("maxsubmitjobs",),
    "maxsubmitpu": ("maxsubmitjobsperuser", "maxsubmitjobspu"),
    "maxsubmitpa": ("maxsubmitjobsperaccount", "maxsubmitjobspa"),
    "grpsubmit": ("grpsubmitjobs",),
    "qos": ("qoslevel", "qos+"),
    "defaultqos": ("defqos",),
    "parent": ("parentname", "parname"),
    "grpcpus": (), "grpnodes": (), "grpmem": ("grpmemory",), "maxcpuspu": ("maxcpusperuser",),
    "maxnodespu": ("maxnodesperuser",), "grptres": (), "grpjobs": ("grpjob",), "grpwall": (), "grptresmins": (),
    "grptresrunmins": (), "grpcpumins": (), "priority": (), "preempt": (), "preemptmode": (), "flags": (),
    "usagefactor": (), "gracetime": (), "mintres": ("mintresperjob",), "partition": (),
    "coordinator": ("coordinators",),
    "adminlevel": (), "defaultaccount": (), "description": (), "organization": (), "classification": (),
    "defaultwckey": (), "maxjobsaccrue": (), "grpjobsaccrue": (), "comment": (), "lineage": (), "limitfactor": (),
    "maxcpus": ("maxcpusperjob",), "maxnodes": ("maxnodesperjob",), "usagethres": ("usagethreshold",),
    "minpriothresh": ("minpriothreshold",), "preemptexempttime": (), "maxjobsaccruepu": (), "maxjobsaccruepa": (),
}  # fmt: skip
_KEYS = {spelling: key for key, others in _SPELLINGS.items() for spelling in (key, *others)}
_FIELD = re.compile(rf":(?=(?:{'|'.join(map(re.escape, sorted(_KEYS, key=len, reverse=True)))})[+-]?=)", re.IGNORECASE)
# Keys of one resource each, which came before the lists of trackable resources.
_OLD_LIMITS = {
    "grpcpus": ("grptres", "cpu"), "grpnodes": ("grptres", "node"), "grpmem": ("grptres", "mem"),
    "maxcpuspu": ("maxtrespu", "cpu"), "maxnodespu": ("maxtrespu", "node"),
}  # fmt: skip


@dataclass(slots=True)
class Entry:
    """A node, partition, or QOS. `keys`: in lower case, as they are spelled today; unset ones are left out."""

    place: str
    name: str
    keys: Keys = field(default_factory=dict)


@dataclass(slots=True)
class Association:
    """The association of an account (`user` empty), or of a user in an account."""

    place: str
    cluster: str
    account: str
    parent: str
    user: str
    keys: Keys


@dataclass(slots=True)
class Slurm:
    """The content of all files. `settings`: of slurm.conf, as `(value, place)`."""

    settings: dict[str, tuple[str, str]] = field(default_factory=dict)
    nodes: list[Entry] = field(default_factory=list)
    node_sets: dict[str, Entry] = field(default_factory=dict)
    partitions: list[Entry] = field(default_factory=list)
    associations: list[Association] = field(default_factory=list)
    qos: dict[str, Entry] = field(default_factory=dict)
    includes: list[Entry] = field(default_factory=list)

    def setting(self, key: str) -> str:
        return self.settings.get(key, ("", ""))[0]


def is_slurm(text: str) -> bool:
    return _SLURM.search(text) is not None or any(_header(line) for line in text.splitlines()[:50])


def read(files: Iterable[File]) -> Slurm:
    """Reads slurm.conf and dumps of accounts. Raises NotReadable."""
    found = Slurm()
    configurations: dict[str, list[str]] = {}
    for file in files:
        if len(file.text) > limits.LARGEST_IMPORT_CHARACTERS:
            raise NotReadable(
                f"{file.name}: {len(file.text):,} characters, expected at most {limits.LARGEST_IMPORT_CHARACTERS:,}"
            )
        lines = file.text.splitlines()
        if any(_DUMP.match(line) for line in lines):
            _read_dump(file.name, lines, found)
        elif any(map(_header, lines)):
            _read_tables(file.name, lines, found)
        else:
            configurations[file.name] = lines
    included = {name for lines in configurations.values() for name in _included(lines, configurations)}
    left = dict(configurations)
    for name in sorted(configurations, key=lambda name: name in included):  # the others only if they include each other
        _Reading(left, found).read(name)
    return found


def is_set(value: str | None) -> bool:
    return value is not None and value.strip().lower() not in _UNSET


# slurm.conf


_INCLUDE = re.compile(r"\s*include\s+(\S+)", re.IGNORECASE)


def _included(lines: Iterable[str], configurations: Iterable[str]) -> Iterator[str]:
    """The files at hand that lines include, by the last part of their path."""
    for line in lines:
        if match := _INCLUDE.match(line):
            last = match[1].rpartition("/")[2]
            yield from (name for name in configurations if name.rpartition("/")[2] == last)


class _Reading:
    """Reads files of slurm.conf, each where another one includes it: values of DEFAULT hold from there on."""

    def __init__(self, left: dict[str, list[str]], found: Slurm) -> None:
        self._left = left
        self._found = found
        self._defaults: dict[str, Keys] = {}

    def read(self, name: str) -> None:
        lines = self._left.pop(name, None)
        if lines is not None:
            self._lines(name, lines)

    def _lines(self, name: str, lines: list[str]) -> None:
        found, defaults = self._found, self._defaults
        last: Entry | None = None
        for place, line, is_indented in _logical(name, lines):
            pairs = _pairs(place, line)
            if not pairs:
                if match := _INCLUDE.match(line):
                    at_hand = next(_included([line], self._left), None)
                    if at_hand is None:
                        found.includes.append(Entry(place, match[1]))
                    else:
                        self.read(at_hand)
                continue
            kind, value = pairs[0]
            if kind not in _ENTRIES:
                if is_indented and last is not None:  # of `scontrol show`
                    last.keys.update(pairs)
                else:
                    found.settings.update((key, (text, place)) for key, text in pairs)
                    last = None
                continue
            keys = {**defaults.get(kind, {}), **dict(pairs[1:])}
            if value.upper() == "DEFAULT":
                defaults[kind], last = keys, None
                continue
            last = Entry(place, value, keys)
            if kind == "nodename":
                found.nodes.append(last)
            elif kind == "partitionname":
                found.partitions.append(last)
            elif kind == "nodeset":
                found.node_sets[value] = last


def _logical(name: str, lines: list[str]) -> Iterator[tuple[str, str, bool]]:
    """Lines without comments; one that ends with a backslash goes on."""
    held, start = "", 0
    for number, line in enumerate(lines, 1):
        line = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        start = start if held else number
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        whole, held = held + line, ""
        if whole.strip():
            yield f"{name}:{start}", whole.strip(), whole[:1].isspace()
    if held.strip():
        yield f"{name}:{start}", held.strip(), False


def _pairs(place: str, line: str) -> list[tuple[str, str]]:
    """`Key=value` pairs, keys in lower case. Blanks around `=` are allowed."""
    lexer = shlex.shlex(re.sub(r"\s*=\s*", "=", line, count=1), posix=True, punctuation_chars="")
    lexer.whitespace_split, lexer.commenters, lexer.quotes, lexer.escape = True, "", '"', ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise NotReadable(f"{place}: {error}") from None
    return [(key.lower(), value) for key, equals, value in (word.partition("=") for word in words) if equals and key]


# sacctmgr dump


def _read_dump(name: str, lines: list[str], found: Slurm) -> None:
    cluster, parent = "", "root"
    for number, line in enumerate(lines, 1):
        match = _DUMP.match(line.strip())
        if match is None:
            continue
        place, kind, title, keys = f"{name}:{number}", match[1].lower(), match[2], _fields(match[3])
        if kind == "cluster":
            cluster = title
            found.associations.append(Association(place, cluster, "root", "", "", keys))
        elif kind == "parent":
            parent = title
        elif kind == "account":
            found.associations.append(Association(place, cluster, title, parent, "", keys))
        elif kind == "user":
            found.associations.append(Association(place, cluster, parent, "", title, keys))
        else:
            found.qos[title] = Entry(place, title, keys)


def _fields(text: str) -> Keys:
    """`:Key=value:Key='value'`. A value may have colons of its own, such as `gres/gpu:a100=4`."""
    pairs = (part.partition("=") for part in _FIELD.split(f"{text}") if "=" in part)
    return _known((key.lstrip(":").rstrip("+-"), value.strip("'\"")) for key, _, value in pairs)


def _known(pairs: Iterable[tuple[str, str]]) -> Keys:
    """Keys as they are spelled today, without those that set nothing."""
    keys: Keys = {}
    for key, value in pairs:
        name = _KEYS.get(re.sub(r"[^a-z]", "", key.lower()))
        if name is None or not is_set(value):
            continue
        if name in _OLD_LIMITS:
            name, resource = _OLD_LIMITS[name]
            value = f"{resource}={value}"
            value = f"{keys[name]},{value}" if name in keys else value
        keys[name] = value
    return keys


# Tables of sacctmgr -P


def _header(line: str) -> list[str]:
    """The columns, if the line is a header of a table; else []."""
    columns = [re.sub(r"[^a-z]", "", column.lower()) for column in line.split("|")]
    is_one = len(columns) > 1 and (set(columns) >= _ASSOCIATIONS or set(columns) >= _QOS)
    return columns if is_one else []


def _read_tables(name: str, lines: list[str], found: Slurm) -> None:
    columns: list[str] = []
    above: list[tuple[int, str]] = []  # accounts around, by the depth of `tree`
    for number, line in enumerate(lines, 1):
        if header := _header(line):
            columns, above = header, []
            continue
        if not columns or "|" not in line:
            continue
        row = dict(zip(columns, line.split("|"), strict=False))
        keys = _known((key, value.strip()) for key, value in row.items() if key)
        place = f"{name}:{number}"
        if "account" not in row:
            found.qos[row["name"].strip()] = Entry(place, row["name"].strip(), keys)
            continue
        account, user = row["account"].strip(), row.get("user", "").strip()
        parent = keys.pop("parent", "")
        if not user:
            depth = len(row["account"]) - len(row["account"].lstrip())
            above = [(at, one) for at, one in above if at < depth]
            parent = parent or (above[-1][1] if above else "root")
            above.append((depth, account))
        parent = "" if user or account == "root" else parent
        found.associations.append(Association(place, row.get("cluster", "").strip(), account, parent, user, keys))


# Values


def hosts(expression: str) -> list[str]:
    """Returns the names of `gpu[01-16],login1`; a name in a form that is not known stands for itself."""
    return [name for part in _split(expression) for name in _expanded(part)]


def _split(expression: str) -> list[str]:
    """At commas outside of brackets."""
    return [part for part in re.split(r",(?![^\[]*\])", expression.strip()) if part]


def _expanded(name: str) -> list[str]:
    match = re.fullmatch(r"([^\[\]]*)\[([^\[\]]*)\](.*)", name)
    if match is None:
        return [name]
    before, inside, after = match.groups()
    found: list[str] = []
    for part in inside.split(","):
        first, _, last = part.partition("-")
        last = last or first
        if not (first.isdecimal() and last.isdecimal()) or int(last) - int(first) >= limits.MOST_IMPORTED_VALUES:
            return [name]
        found += (f"{before}{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    rest = _expanded(after)
    if len(found) * len(rest) > limits.MOST_IMPORTED_VALUES:
        return [name]
    return [f"{one}{end}" for one in found for end in rest]


def tres(place: str, text: str) -> tuple[Amounts, list[str]]:
    """Returns the amounts of `cpu=64,mem=256G,gres/gpu:a100=4` under remuda's names, and the resources that no ask
    has. Raises NotReadable.
    """
    amounts: Amounts = {}
    others: list[str] = []
    for part in filter(None, text.split(",")):
        name, _, value = part.strip().partition("=")
        if not is_set(value):
            continue
        key = resource_of(name)
        if key is None:
            others.append(f"{name}={value}")
            continue
        try:
            amounts[key] = 1000 * int(value) if key == "vcore" else _memory(value) if key == "memory" else int(value)
        except ValueError:
            raise NotReadable(f"{place}: {part}: expected a number") from None
    return amounts, others


def resource_of(name: str) -> str | None:
    """Returns remuda's name of a trackable resource; None for a resource that no ask has."""
    plain = name.strip().lower()
    if plain in ("cpu", "mem"):
        return {"cpu": "vcore", "mem": "memory"}[plain]
    if plain.startswith("gres/"):
        return plain.removeprefix("gres/").replace(":", "_")
    return None


def seconds(text: str) -> int | None:
    """Returns the seconds of a time limit: `90` (minutes), `30:00`, `2:00:00`, `5-12`, `5-12:00:00`; None: there is
    none, or it is in another form.
    """
    match = re.fullmatch(r"(?:([0-9]+)-)?([0-9]+)(?::([0-9]+))?(?::([0-9]+))?", text.strip())
    if match is None:
        return None
    days, *rest = match.groups()
    parts = [int(part) for part in rest if part is not None]
    if days is None and len(parts) < 3:  # minutes, minutes:seconds
        parts = [0, *parts]
    hours, minutes, last = (*parts, 0, 0)[:3]
    return ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + last or None


def _memory(text: str) -> int:
    """Bytes; without a suffix in MiB."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)B?", text.strip().upper())
    if match is None:
        raise ValueError(text)
    return int(float(match[1]) * 2 ** {"K": 10, "": 20, "M": 20, "G": 30, "T": 40, "P": 50}[match[2]])


def gres(text: str) -> Amounts:
    """Returns the amounts of `gpu:a100:4(S:0-1),shard:8`: of each kind, and of each type of it."""
    found: Amounts = {}
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = [word for word in part.strip().lower().split(":") if word and word != "no_consume"]
        if not words or words[0] in _UNSET:
            continue
        count = int(words.pop()) if words[-1].isdecimal() and len(words) > 1 else 1
        for name in (words[0], "_".join(words)):
            found[name] = found.get(name, 0) + count
            if len(words) == 1:
                break
    return found


def capacity_of(node: Mapping[str, str]) -> Amounts:
    """Returns what one node has, by its line of slurm.conf."""
    cpus = _number(node, "cpus", "cputot", "procs")
    if cpus is None:
        sockets = _number(node, "sockets") or (_number(node, "boards") or 1) * (_number(node, "socketsperboard") or 1)
        cpus = sockets * (_number(node, "corespersocket") or 1) * (_number(node, "threadspercore") or 1)
    found: Amounts = {"vcore": 1000 * cpus}
    if memory := _number(node, "realmemory"):
        found["memory"] = memory * 2**20
    for name, count in gres(node.get("gres", "")).items():
        found[name] = count
    return found


def _number(keys: Mapping[str, str], *names: str) -> int | None:
    return next((int(keys[name]) for name in names if keys.get(name, "").isdecimal()), None)
