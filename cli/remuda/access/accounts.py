"""The NATS configuration of permissions and public keys: accounts, users, exports and imports.

It contains no secret: servers authenticate clients by their public keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from remuda_bus import subjects

from . import permissions

SERVICES_ACCOUNT = "REMUDA"
SYSTEM_ACCOUNT = "SYS"


def rm_account(rm_id: str) -> str:
    return f"RM-{subjects.key_of(rm_id)}"


def accounts(roles: Mapping[str, str], rms: Mapping[str, str]) -> dict[str, object]:
    """`roles`: role -> public key, `rms`: rmID -> public key. To be included at the top of a server's configuration."""
    users = [{"nkey": roles[role], "permissions": permissions.of_role(role).as_nats()} for role in permissions.ROLES]
    exports = [
        _service(kind, subject, [rm_account(rm)])
        for rm in sorted(rms)
        for kind, _, subject in permissions.rm_imports(rm)
    ]
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
    return {"system_account": SYSTEM_ACCOUNT, "accounts": everything}


def _service(answer: str, subject: str, to: list[str]) -> dict[str, object]:
    return {"service": subject, "accounts": to, "response_type": answer}


def _imported(account: str, subject: str) -> dict[str, object]:
    return {"service": {"account": account, "subject": subject}}
