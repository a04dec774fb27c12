"""The NATS configuration of permissions and public keys: accounts, users, exports and imports.

It contains no secret: servers authenticate clients by their public keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from remuda_bus import subjects
from remuda_operations.operators import Operator, client_token

from . import permissions

SERVICES_ACCOUNT = "REMUDA"
SYSTEM_ACCOUNT = "SYS"


def rm_account(rm_id: str) -> str:
    return f"RM-{subjects.key_of(rm_id)}"


def operator_account(operator: Operator) -> str:
    return f"OPERATOR-{operator.token}"


def client_account(client: str) -> str:
    return f"PELOTON-{client_token(client)}"


def accounts(
    roles: Mapping[str, str],
    rms: Mapping[str, str],
    operators: Mapping[Operator, str],
    acts_as: Mapping[str, Iterable[Operator | str]],
    log: Collection[str] = (),
    clients: Mapping[str, str] = {},
) -> dict[str, object]:
    """Returns the accounts of the NATS servers, to be included at the top of a server's configuration.

    `roles`: role -> public key. `rms`: rmID -> public key. `operators`: operator -> public key. `acts_as`: front end ->
    the operators in whose names it may act. `log`: the names of operators who may change log levels. `clients`: client
    of Peloton's resource manager -> public key.
    """
    users = [
        {"nkey": roles[role], "permissions": permissions.of_role(role, acts_as.get(role, ())).as_nats()}
        for role in permissions.ROLES
    ]
    exports = [
        _service(kind, subject, [rm_account(rm)])
        for rm in sorted(rms)
        for kind, _, subject in permissions.rm_imports(rm)
    ]
    exports += _exports_to(operators)
    if may_log := [operator_account(one) for one in operators if one.name in log]:
        exports.append(_service("stream", permissions.LOG_LEVELS, may_log))
    exports += [_service("singleton", permissions.client_import(one)[1], [client_account(one)]) for one in clients]
    imports = [_imported(rm_account(rm), subject) for rm in sorted(rms) for _, subject in permissions.rm_exports(rm)]
    everything: dict[str, object] = {
        SERVICES_ACCOUNT: {"jetstream": "enabled", "users": users, "exports": exports, "imports": imports},
        SYSTEM_ACCOUNT: {"users": [{"nkey": roles[permissions.MONITOR]}]},
    }
    for rm, key in sorted(rms.items()):
        everything[rm_account(rm)] = {
            "users": [{"nkey": key, "permissions": permissions.of_rm(rm).as_nats()}],
            "imports": [
                {**_imported(SERVICES_ACCOUNT, subject), "to": local}
                for _, local, subject in permissions.rm_imports(rm)
            ],
            "exports": [_service(kind, subject, [SERVICES_ACCOUNT]) for kind, subject in permissions.rm_exports(rm)],
        }
    for operator, key in operators.items():
        imported = permissions.operator_imports(operator)
        if logs := operator.name in log:
            imported.append((permissions.LOG_LEVELS, permissions.LOG_LEVELS))
        everything[operator_account(operator)] = {
            "users": [{"nkey": key, "permissions": permissions.of_operator(operator, logs=logs).as_nats()}],
            "imports": [{**_imported(SERVICES_ACCOUNT, subject), "to": local} for local, subject in imported],
        }
    for client, key in clients.items():
        local, subject = permissions.client_import(client)
        everything[client_account(client)] = {
            "users": [{"nkey": key, "permissions": permissions.of_client().as_nats()}],
            "imports": [{**_imported(SERVICES_ACCOUNT, subject), "to": local}],
        }
    return {"system_account": SYSTEM_ACCOUNT, "accounts": everything}


def _exports_to(operators: Iterable[Operator]) -> list[dict[str, object]]:
    """One export for each subject, with all accounts that may import it."""
    importers: dict[str, list[str]] = {}
    for operator in operators:
        for _, subject in permissions.operator_imports(operator):
            importers.setdefault(subject, []).append(operator_account(operator))
    return [_service("singleton", subject, importing) for subject, importing in importers.items()]


def _service(answer: str, subject: str, to: list[str]) -> dict[str, object]:
    return {"service": subject, "accounts": to, "response_type": answer}


def _imported(account: str, subject: str) -> dict[str, object]:
    return {"service": {"account": account, "subject": subject}}
