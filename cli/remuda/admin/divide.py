"""`remuda rm divide RM`: prepare the division of a resource manager into several, by partitions.

Checks everything first, then writes files into a new directory: a configuration for each new resource manager, and the
steps to take. Changes nothing in the running system (docs/adr/log-and-chain.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from remuda_bus import subjects
from remuda_config import Invalid, NotDivisible, checksum, load_file, read_file
from remuda_config import divide as divide_text
from remuda_operations.queries import core as queries
from remuda_operations.queries.rows import PartitionTree

from .. import limits
from ..client.connections import bus_at
from ..client.known_rms import check_rm
from ..errors import UserError
from ..terminal import arguments, event_loop, units
from ..terminal.output import console
from .configuration import configured_rms
from .forget import is_anything_stored

RUNNING = "Running"
STEPS = "steps.md"


_STEPS = """\
# Divide {rm} into {new}

Running allocations continue: deregistration stops none, and the new resource managers report them. Nothing new is
placed from step 3 to step 5.

1. Where keys are in use: create one for each new resource manager, and reload the NATS servers twice.

{keys}

2. Save what there is: `remuda backup DIRECTORY`.
3. Have {rm} submit nothing more, deregister (`deregister` of the SDK) and end. `remuda status` shows it as Stopped.
4. Start a resource manager for each part. It registers with the configuration below and the `extraConfig` of {rm}.
   It reports the applications of its partitions, their asks, and the nodes with what runs on them
   (`existingAllocations`).
5. Compare `remuda status` and `remuda queues` with what {rm} had:

| resource manager | configuration | partition | nodes | allocated |
|---|---|---|---|---|
{rows}

6. `remuda rm forget {rm}`, when all is well. Otherwise rmproxy forgets it a week after step 3.

To go back before step 6: have {new} deregister and end. Start {rm} as it was: it registers and reports what runs.
"""


@dataclass(frozen=True, slots=True)
class Part:
    """The partitions that become a resource manager of their own."""

    rm_id: str
    partitions: tuple[str, ...]
    config: str


def divide(url: str, rm: str, config: Path, into: Sequence[str], directory: Path) -> None:
    for part in event_loop.run(lambda: prepare(url, rm, config, into, directory)):
        console.print(f"{part.rm_id}: {', '.join(part.partitions)}: {_file_of(directory, part)}", markup=False)
    console.print(f"Nothing is changed yet. The steps to take: {directory / STEPS}", markup=False, soft_wrap=True)


async def prepare(url: str, rm: str, config: Path, into: Sequence[str], directory: Path) -> list[Part]:
    """Check everything, then write the files. Raises UserError."""
    arguments.rm_id(rm)
    parts = _parts(config, _groups(rm, into))
    _check_new(directory)
    partitions = await _check(url, rm, parts, _text(config))
    _write(directory, parts, _steps(rm, parts, directory, partitions))
    return parts


def _check_new(directory: Path) -> None:
    if directory.exists():
        raise UserError(f"--directory {directory}: exists, expected the name of a new directory")


def _write(directory: Path, parts: Sequence[Part], steps: str) -> None:
    try:
        directory.mkdir(parents=True)
        for part in parts:
            _file_of(directory, part).write_text(part.config, newline="")
        (directory / STEPS).write_text(steps)
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror or error}") from None


def _groups(rm: str, into: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The partitions of each new RM, from RM=PARTITION,PARTITION."""
    groups: dict[str, tuple[str, ...]] = {}
    for one in into:
        name, equals, listed = one.partition("=")
        partitions = tuple(partition.strip().lower() for partition in listed.split(","))
        if not equals or not all(partitions):
            raise UserError(f"--into {arguments.quoted(one)}: expected RM=PARTITION[,PARTITION...]")
        arguments.rm_id(name)
        if name == rm or name in groups:
            raise UserError(f"--into {name}: expected a new rmID, each once; {rm} stays as it is until the end")
        groups[name] = partitions
    if len(groups) < 2:
        raise UserError(f"--into: {len(groups)} given, expected at least two resource managers")
    return groups


def _text(config: Path) -> str:
    content = read_file(config)
    assert isinstance(content, bytes)  # it has been read before
    return content.decode()


def _parts(config: Path, groups: Mapping[str, tuple[str, ...]]) -> list[Part]:
    """Raises UserError where the configuration is not valid, or cannot be divided that way."""
    arguments.readable("--config", config)
    try:
        load_file(read_file(config), config, limits.MAX_PAYLOAD_BYTES)
        texts = divide_text(_text(config), groups)
    except Invalid as invalid:
        raise UserError(f"--config {config}: {invalid.problems[0]}; see `remuda config check`") from None
    except NotDivisible as problem:
        raise UserError(f"--config {config}: {problem}") from None
    return [Part(name, groups[name], text) for name, text in texts.items()]


async def _check(url: str, rm: str, parts: Sequence[Part], text: str) -> dict[str, PartitionTree]:
    """The partitions of the RM as they are now. Raises UserError unless it can be divided."""
    async with bus_at(url) as bus:
        await check_rm(bus, rm)
        found = await queries.queues(bus, rm)
        if found.state != RUNNING:
            raise UserError(f"{rm} is {found.state}, expected {RUNNING}")
        active = next((str(one["checksum"]) for one in await configured_rms(bus) if one["rm_id"] == rm), "")
        if active != checksum(text):
            raise UserError(
                f"{rm} has another configuration, with the checksum {active[:12]}; give the one that it has"
            )
        for part in parts:
            record = await bus.get(subjects.RMS.name, subjects.key_of(part.rm_id))
            if record is not None or await is_anything_stored(bus, part.rm_id):
                raise UserError(f"--into {part.rm_id}: there is a resource manager of that name, or data of one")
    partitions = {partition.name: partition for partition in found.partitions}
    divided = {name for part in parts for name in part.partitions}
    if left := sorted(partitions.keys() - divided):
        raise UserError(
            f"{rm} still has the partition {left[0]!r}, which is not in the configuration: wait until it is empty"
        )
    return partitions


def _file_of(directory: Path, part: Part) -> Path:
    return directory / f"{subjects.key_of(part.rm_id)}.yaml"


def _steps(rm: str, parts: Sequence[Part], directory: Path, partitions: Mapping[str, PartitionTree]) -> str:
    names = [part.rm_id for part in parts]
    rows = [_row(part, name, directory, partitions.get(name)) for part in parts for name in part.partitions]
    return _STEPS.format(
        rm=rm,
        new=", ".join(names),
        keys="\n".join(f"       remuda rm add {name}" for name in names),
        rows="\n".join(rows),
    )


def _row(part: Part, name: str, directory: Path, partition: PartitionTree | None) -> str:
    nodes = partition.nodes if partition is not None else 0
    allocated = units.amounts(partition.allocated, "nothing") if partition is not None else "nothing"
    return f"| {part.rm_id} | {_file_of(directory, part).name} | {name} | {nodes} | {allocated} |"
