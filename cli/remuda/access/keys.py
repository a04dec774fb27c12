"""A directory of keys: a secret seed and a public key for each role, each RM, each operator, and for clients of
Peloton's resource manager.

`server/accounts.conf` is generated from the public keys only, so seeds can be moved to their owners."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Sequence
from pathlib import Path

import nkeys

from remuda_bus import subjects
from remuda_operations.operators import Operator, client_token, decode, operator_in

from ..errors import UserError
from .accounts import accounts
from .permissions import ANYONE, FRONT_ENDS, MONITOR, ROLES

ACCOUNTS = Path("server", "accounts.conf")  # in a directory of its own, so that servers can mount only this file
SEED, PUBLIC, GROUPS = ".seed", ".pub", ".groups"
ACTS_AS = ".acts_as"
LOG_LEVELS = "log_levels"


class Keys:
    """A directory of keys.

    It has <role>.{seed,pub}, <front end>.acts_as, log_levels, rms/<key of the rmID>.{seed,pub}, operators/<token of the
    name>.{seed,pub,groups} and clients/<token of the name>.{seed,pub}.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rms_directory = directory / "rms"
        self.operators_directory = directory / "operators"
        self.clients_directory = directory / "clients"

    def ensure_roles(self) -> list[str]:
        """Create missing keys of roles. Returns their names."""
        for made in (self.rms_directory, (self.directory / ACCOUNTS).parent):
            made.mkdir(parents=True, exist_ok=True)
        missing = [role for role in (*ROLES, MONITOR) if not _file(self.directory / role, PUBLIC).exists()]
        for role in missing:
            _make(self.directory / role)
        self.render()
        return missing

    def add_rm(self, rm_id: str) -> Path:
        """Create the key of an RM. Returns the path of its seed. Raises UserError if the RM has a key."""
        return self._add(self._rm(rm_id), rm_id, f"`remuda rm remove {rm_id}` deletes it")

    def remove_rm(self, rm_id: str) -> None:
        self._remove(self._rm(rm_id), rm_id)

    def rms(self) -> dict[str, str]:
        """Returns the public key of each RM that has one, by rmID."""
        return {subjects.rm_of_key(name): key for name, key in _in(self.rms_directory)}

    def _rm(self, rm_id: str) -> Path:
        return self.rms_directory / subjects.key_of(subjects.check_rm_id(rm_id))

    def add_operator(self, operator: Operator) -> Path:
        """Create the key of an operator. Returns the path of its seed. Raises UserError if the operator has a key."""
        at, hint = self._operator(operator), "`remuda operator groups` changes the groups"
        return self._add(at, operator.name, hint, operator.groups)

    def set_groups(self, operator: Operator) -> None:
        """Replace the groups of an operator. Raises UserError if the operator has no key."""
        _write_lines(_file(self._operator_key(operator), GROUPS), operator.groups)
        self.render()

    def remove_operator(self, operator: Operator) -> None:
        """Deletes the key of an operator. Raises UserError if the operator has no key."""
        at = self._operator_key(operator)
        left = [name for name in self.log_levels() if name != operator.name]
        _write_lines(self.directory / LOG_LEVELS, left)  # another one of that name is not meant
        self._remove(at, operator.name)

    def operators(self) -> dict[Operator, str]:
        """Returns the public key of each operator. Raises UserError for a file of groups that cannot be read."""
        found = {}
        for name, key in _in(self.operators_directory):
            file = _file(self.operators_directory / name, GROUPS)
            try:
                found[Operator(decode(name), tuple(file.read_text().split()))] = key
            except (OSError, ValueError) as error:
                raise UserError(f"{file}: {error}; `remuda operator groups` writes it") from None
        return found

    def add_client(self, name: str) -> Path:
        """Create the key of a client of Peloton's resource manager. Returns the path of its seed. Raises UserError if
        it has a key, ValueError for a name that is not allowed."""
        return self._add(self._client(name), name, f"`remuda peloton remove {name}` deletes it")

    def remove_client(self, name: str) -> None:
        """Deletes the key of a client of Peloton's resource manager. Raises UserError if the client has no key,
        ValueError for a name that is not allowed.
        """
        self._remove(self._client(name), name)

    def clients(self) -> dict[str, str]:
        """Returns the public key of each client of Peloton's resource manager that has one of its own, by name."""
        return {decode(name): key for name, key in _in(self.clients_directory)}

    def _client(self, name: str) -> Path:
        return self.clients_directory / client_token(name)

    def _add(self, at: Path, name: str, hint: str, groups: Iterable[str] | None = None) -> Path:
        """`groups`: of an operator."""
        self._check_roles()
        if (public := _file(at, PUBLIC)).exists():
            raise UserError(f"{name} has a key already: {public}; {hint}")
        at.parent.mkdir(exist_ok=True)
        if groups is not None:
            _write_lines(_file(at, GROUPS), groups)
        _make(at)
        self.render()
        return _file(at, SEED)

    def _remove(self, at: Path, name: str) -> None:
        if not _file(at, PUBLIC).exists():
            raise UserError(f"{name} has no key in {at.parent}")
        for end in (PUBLIC, SEED, GROUPS):
            _file(at, end).unlink(missing_ok=True)
        self.render()

    def set_acts_as(self, front_end: str, operators: Sequence[Operator | str]) -> None:
        """Replace the operators in whose names a front end may act; ANYONE: any. Raises UserError for another role."""
        if front_end not in FRONT_ENDS:
            raise UserError(f"{front_end!r} is no front end: expected {' or '.join(FRONT_ENDS)}")
        self._check_roles()
        lines = [one if isinstance(one, str) else "+".join((one.name, *one.groups)) for one in operators]
        _write_lines(self.directory / f"{front_end}{ACTS_AS}", lines)
        self.render()

    def acts_as(self, front_end: str) -> list[Operator | str]:
        """Returns the operators in whose names a front end may act. Raises UserError for a file that cannot be read."""
        file = self.directory / f"{front_end}{ACTS_AS}"
        try:
            return [one if one == ANYONE else operator_in(one) for one in file.read_text().splitlines()]
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise UserError(f"{file}: {error}; `remuda operator front-end` writes it") from None

    def set_log_levels(self, operators: Sequence[Operator]) -> None:
        """Replace the operators who may change log levels. Raises UserError if one has no key."""
        for one in operators:
            self._operator_key(one)
        _write_lines(self.directory / LOG_LEVELS, [one.name for one in operators])
        self.render()

    def log_levels(self) -> list[str]:
        """Returns the names of the operators who may change log levels."""
        try:
            return (self.directory / LOG_LEVELS).read_text().splitlines()
        except FileNotFoundError:
            return []

    def _operator(self, operator: Operator) -> Path:
        return self.operators_directory / operator.token

    def _operator_key(self, operator: Operator) -> Path:
        at = self._operator(operator)
        if not _file(at, PUBLIC).exists():
            raise UserError(f"{operator.name} has no key in {at.parent}; `remuda operator add` makes it")
        return at

    def _check_roles(self) -> None:
        if not _file(self.directory / ROLES[0], PUBLIC).exists():
            raise UserError(f"{self.directory}: no service keys; `remuda keys {self.directory}` creates them")

    def render(self) -> None:
        """Write the accounts file."""
        roles = {role: _file(self.directory / role, PUBLIC).read_text().strip() for role in (*ROLES, MONITOR)}
        acts_as = {role: self.acts_as(role) for role in FRONT_ENDS}
        everything = accounts(roles, self.rms(), self.operators(), acts_as, self.log_levels(), self.clients())
        text = json.dumps(everything, indent=1)[1:-1]  # without the outer braces, because the file is included
        _write_lines(self.directory / ACCOUNTS, [text.strip()])


def _file(at: Path, end: str) -> Path:
    return at.with_name(at.name + end)


def _in(directory: Path) -> list[tuple[str, str]]:
    """The public keys in a directory, by the names of their files."""
    return [(one.name.removesuffix(PUBLIC), one.read_text().strip()) for one in sorted(directory.glob(f"*{PUBLIC}"))]


def _write_lines(file: Path, lines: Iterable[str]) -> None:
    """Atomically: a server reads the accounts file, which is made from the others."""
    draft = file.with_name(file.name + ".new")
    draft.write_text("".join(f"{line}\n" for line in lines))
    draft.replace(file)


def _make(at: Path) -> None:
    seed = nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER)
    file = os.open(_file(at, SEED), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(seed + b"\n")
    _file(at, PUBLIC).write_text(nkeys.from_seed(bytearray(seed)).public_key.decode() + "\n")
