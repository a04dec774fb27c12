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
        missing = [role for role in (*ROLES, MONITOR) if not _public(self.directory / role).exists()]
        for role in missing:
            _make(self.directory / role)
        self.render()
        return missing

    def add_rm(self, rm_id: str) -> Path:
        """Create the key of an RM. Returns the path of its seed. Raises UserError if the RM has a key."""
        subjects.check_rm_id(rm_id)
        self._check_roles()
        at = self.rms_directory / subjects.key_of(rm_id)
        if _public(at).exists():
            raise UserError(f"{rm_id} has a key already: {_public(at)}; `remuda rm remove {rm_id}` deletes it")
        _make(at)
        self.render()
        return at.with_name(at.name + SEED)

    def remove_rm(self, rm_id: str) -> None:
        at = self.rms_directory / subjects.key_of(subjects.check_rm_id(rm_id))
        if not _public(at).exists():
            raise UserError(f"{rm_id} has no key in {self.rms_directory}")
        _public(at).unlink()
        at.with_name(at.name + SEED).unlink(missing_ok=True)
        self.render()

    def rms(self) -> dict[str, str]:
        """Returns the public key of each RM that has one, by rmID."""
        found = sorted(self.rms_directory.glob(f"*{PUBLIC}"))
        return {subjects.rm_of_key(path.name.removesuffix(PUBLIC)): path.read_text().strip() for path in found}

    def add_operator(self, operator: Operator) -> Path:
        """Create the key of an operator. Returns the path of its seed. Raises UserError if the operator has a key."""
        self._check_roles()
        at = self.operators_directory / operator.token
        if _public(at).exists():
            raise UserError(
                f"{operator.name} has a key already: {_public(at)}; `remuda operator groups` changes the groups"
            )
        self.operators_directory.mkdir(exist_ok=True)
        _write_groups(at, operator)
        _make(at)
        self.render()
        return at.with_name(at.name + SEED)

    def set_groups(self, operator: Operator) -> None:
        """Replace the groups of an operator. Raises UserError if the operator has no key."""
        _write_groups(self._operator_key(operator), operator)
        self.render()

    def remove_operator(self, operator: Operator) -> None:
        """Deletes the key of an operator. Raises UserError if the operator has no key."""
        at = self._operator_key(operator)
        for end in (PUBLIC, SEED, GROUPS):
            at.with_name(at.name + end).unlink(missing_ok=True)
        left = [name for name in self.log_levels() if name != operator.name]
        _write_lines(self.directory / LOG_LEVELS, left)  # another one of that name is not meant
        self.render()

    def operators(self) -> dict[Operator, str]:
        """Returns the public key of each operator. Raises UserError for a file of groups that cannot be read."""
        found = {}
        for public in sorted(self.operators_directory.glob(f"*{PUBLIC}")):
            file = public.with_suffix(GROUPS)
            try:
                operator = Operator(decode(public.name.removesuffix(PUBLIC)), tuple(file.read_text().split()))
            except (OSError, ValueError) as error:
                raise UserError(f"{file}: {error}; `remuda operator groups` writes it") from None
            found[operator] = public.read_text().strip()
        return found

    def add_client(self, name: str) -> Path:
        """Create the key of a client of Peloton's resource manager. Returns the path of its seed. Raises UserError if
        it has a key, ValueError for a name that is not allowed."""
        at = self.clients_directory / client_token(name)
        self._check_roles()
        if _public(at).exists():
            raise UserError(f"{name} has a key already: {_public(at)}; `remuda peloton remove {name}` deletes it")
        self.clients_directory.mkdir(exist_ok=True)
        _make(at)
        self.render()
        return at.with_name(at.name + SEED)

    def remove_client(self, name: str) -> None:
        """Deletes the key of a client of Peloton's resource manager. Raises UserError if the client has no key,
        ValueError for a name that is not allowed.
        """
        at = self.clients_directory / client_token(name)
        if not _public(at).exists():
            raise UserError(f"{name} has no key in {self.clients_directory}")
        for end in (PUBLIC, SEED):
            at.with_name(at.name + end).unlink(missing_ok=True)
        self.render()

    def clients(self) -> dict[str, str]:
        """Returns the public key of each client of Peloton's resource manager that has one of its own, by name."""
        found = sorted(self.clients_directory.glob(f"*{PUBLIC}"))
        return {decode(path.name.removesuffix(PUBLIC)): path.read_text().strip() for path in found}

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

    def _operator_key(self, operator: Operator) -> Path:
        at = self.operators_directory / operator.token
        if not _public(at).exists():
            raise UserError(f"{operator.name} has no key in {self.operators_directory}; `remuda operator add` makes it")
        return at

    def _check_roles(self) -> None:
        if not _public(self.directory / ROLES[0]).exists():
            raise UserError(f"{self.directory}: no service keys; `remuda keys {self.directory}` creates them")

    def render(self) -> None:
        """Write the accounts file atomically, so that a server never reads a part of it."""
        roles = {role: _public(self.directory / role).read_text().strip() for role in (*ROLES, MONITOR)}
        acts_as = {role: self.acts_as(role) for role in FRONT_ENDS}
        everything = accounts(roles, self.rms(), self.operators(), acts_as, self.log_levels(), self.clients())
        text = json.dumps(everything, indent=1)
        accounts_file = self.directory / ACCOUNTS
        draft = accounts_file.with_suffix(".new")
        draft.write_text(text[1:-1].strip() + "\n")  # without the outer braces, because the file is included
        draft.replace(accounts_file)


def _public(at: Path) -> Path:
    return at.with_name(at.name + PUBLIC)


def _write_groups(at: Path, operator: Operator) -> None:
    _write_lines(at.with_name(at.name + GROUPS), operator.groups)


def _write_lines(file: Path, lines: Iterable[str]) -> None:
    """Atomically: the accounts file is made from it."""
    draft = file.with_name(file.name + ".new")
    draft.write_text("".join(f"{line}\n" for line in lines))
    draft.replace(file)


def _make(at: Path) -> None:
    seed = nkeys.encode_seed(secrets.token_bytes(32), nkeys.PREFIX_BYTE_USER)
    file = os.open(at.with_name(at.name + SEED), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "wb") as out:
        out.write(seed + b"\n")
    _public(at).write_text(nkeys.from_seed(bytearray(seed)).public_key.decode() + "\n")
