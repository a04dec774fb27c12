"""`remuda keys`, `remuda rm add` and `remove`, `remuda operator`, `remuda peloton`: the commands' output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from remuda_operations.operators import Operator, operator_in, operator_with

from ..errors import UserError
from ..terminal.output import is_wide
from .keys import ACCOUNTS, Keys
from .permissions import ANYONE, RM_DOMAIN

# nats-server 2.15 imports into a new account only on the second reload.
RELOAD_ONCE = "Send SIGHUP to each NATS server to apply this."
RELOAD = "Reload the NATS servers twice to apply this: send SIGHUP to each, and again one second later."
DELETED = "key deleted. Send SIGHUP to each NATS server to close its connections."


def make_keys(directory: Path) -> None:
    made = Keys(directory).ensure_roles()
    print(f"created: {', '.join(made)}" if made else "all keys exist")
    print(f"{directory / ACCOUNTS} is up to date. {RELOAD}")


def add_rm(directory: Path, rm_id: str) -> None:
    with _readable_names():
        seed = Keys(directory).add_rm(rm_id)
    print(f"Key of {rm_id}: {seed} (secret; give it to its owner only)")
    print(f"Connect with:  REMUDA_NATS_SEED={seed.name} REMUDA_NATS_DOMAIN={RM_DOMAIN} REMUDA_NATS_CA=ca.pem")
    print(RELOAD)


def remove_rm(directory: Path, rm_id: str) -> None:
    with _readable_names():
        Keys(directory).remove_rm(rm_id)
    print(f"{rm_id}: {DELETED}")


def add_operator(directory: Path, name: str, groups: str) -> None:
    operator = _operator(name, groups)
    seed = Keys(directory).add_operator(operator)
    print(f"Key of {operator.name} in {_listed(operator.groups)}: {seed} (secret; give it to its owner only)")
    print(f"Connect with:  REMUDA_NATS_SEED={seed.name} REMUDA_NATS_CA=ca.pem")
    print(RELOAD)


def set_groups(directory: Path, name: str, groups: str) -> None:
    operator = _operator(name, groups)
    Keys(directory).set_groups(operator)
    print(f"{operator.name} is in {_listed(operator.groups)}. {RELOAD_ONCE}")


def set_acts_as(directory: Path, front_end: str, operators: str) -> None:
    listed = [one.strip() for one in operators.split(",") if one.strip()]
    with _readable_names():
        Keys(directory).set_acts_as(front_end, [one if one == ANYONE else operator_in(one) for one in listed])
    named = "any operator" if ANYONE in listed else ", ".join(listed) or "no operator"
    print(f"{front_end} acts as {named}. {RELOAD_ONCE}")


def set_log_levels(directory: Path, operators: str) -> None:
    named = [_operator(one.strip(), "") for one in operators.split(",") if one.strip()]
    Keys(directory).set_log_levels(named)
    print(f"{', '.join(one.name for one in named) or 'no operator'} may change log levels. {RELOAD}")


def remove_operator(directory: Path, name: str) -> None:
    operator = _operator(name, "")
    Keys(directory).remove_operator(operator)
    print(f"{operator.name}: {DELETED}")


def list_operators(directory: Path, as_json: bool) -> None:
    found = Keys(directory).operators()
    _print_keys(
        [{"operator": one.name, "groups": one.groups, "key": key} for one, key in found.items()],
        [f"{one.name}  {_listed(one.groups)}" for one in found],
        f"no operator has a key in {directory}; `remuda operator add NAME` creates one", as_json,
    )  # fmt: skip


def add_client(directory: Path, name: str) -> None:
    with _readable_names():
        seed = Keys(directory).add_client(name)
    print(f"Key of {name}: {seed} (secret; give it to its owner only)")
    print(f"The setting resmgr.clients says what it may do, such as {name}=jobs:/team.")
    print(RELOAD)


def remove_client(directory: Path, name: str) -> None:
    with _readable_names():
        Keys(directory).remove_client(name)
    print(f"{name}: {DELETED}")


def list_clients(directory: Path, as_json: bool) -> None:
    found = Keys(directory).clients()
    _print_keys(
        [{"client": name, "key": key} for name, key in found.items()], list(found),
        f"no client of Peloton has a key in {directory}; `remuda peloton add NAME` creates one", as_json,
    )  # fmt: skip


def _print_keys(rows: Sequence[Mapping[str, object]], texts: Sequence[str], none: str, as_json: bool) -> None:
    """`texts`: the line of each row, without the key, for which only a wide terminal has room. `none`: said instead."""
    if as_json:
        print(msgspec.json.encode(rows).decode())
        return
    for row, text in zip(rows, texts, strict=True):
        print(f"{text}  {row['key']}" if is_wide() else text)
    if not rows:
        print(none)


def _operator(name: str, groups: str) -> Operator:
    """`groups`: separated by commas. Raises UserError."""
    with _readable_names():
        return operator_with(name, (group.strip() for group in groups.split(",") if group.strip()))


@contextmanager
def _readable_names() -> Iterator[None]:
    """Names that are not allowed are errors of the user."""
    try:
        yield
    except ValueError as error:
        raise UserError(str(error)) from None


def _listed(groups: Sequence[str]) -> str:
    return f"groups {', '.join(groups)}" if groups else "no group"
