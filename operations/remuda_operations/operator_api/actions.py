"""Actions of operators, by rmproxy and the core."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from remuda_bus import subjects
from remuda_bus.bus import Bus
from remuda_operations.operator_api.callers import Caller
from remuda_operations.operator_api.messages import filled
from remuda_operations.operator_api.pages import rm_of
from remuda_operations.queries import actions
from remuda_proto.remuda.v1 import admin_pb2 as admin

Act = Callable[[Bus, Caller, Any], Awaitable[admin.ActionOutcome]]
# Method -> the action on the bus.
ACTIONS = {
    "KillApplication": "kill_application",
    "MoveApplication": "move_application",
    "HoldQueue": "hold_queue",
    "ResumeQueue": "resume_queue",
    "DrainNode": "drain_node",
    "UndrainNode": "undrain_node",
    "ChangeAskPriority": "change_ask_priority",
    "ReleaseAllocation": "release_one_allocation",
    "ForgetResourceManager": "forget_rm",
}
assert set(ACTIONS.values()) == set(subjects.ACTIONS)


def act(action: str) -> Act:
    """The handler of an action. The fields of its request, beside `rm` and `options`, are those of the action."""

    async def handle(bus: Bus, caller: Caller, request: Any) -> admin.ActionOutcome:
        options: admin.ActionOptions = request.options
        names = [one.name for one in request.DESCRIPTOR.fields if one.name not in ("rm", "options")]
        fields = {
            **{name: getattr(request, name) for name in names},
            "reason": options.reason,
            "partition": options.partition,
            "force": options.force,
        }
        action_id = options.action_id or secrets.token_hex(8)
        outcome = await actions.request(bus, caller.operator, rm_of(request), action, action_id, fields)
        return filled(admin.ActionOutcome(), msgspec.to_builtins(outcome))

    return handle
