"""The configuration: queries and changes, by the configuration service."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from google.protobuf.message import DecodeError

from remuda_bus.bus import Bus, Refused, Unreadable
from remuda_operations.operator_api.messages import Caller, filled, rm_of, set_head
from remuda_operations.queries import configuration, preview
from remuda_proto.remuda.v1 import admin_pb2 as admin
from remuda_proto.remuda.v1 import config_pb2

PASSES, ROWS = 3, 50  # of a preview that names none


async def get_configuration(bus: Bus, _: Caller, __: admin.GetConfigurationRequest) -> admin.ConfigurationText:
    return filled(admin.ConfigurationText(), await configuration.query(bus, "get", {}))


async def check_configuration(
    bus: Bus, _: Caller, request: admin.CheckConfigurationRequest
) -> admin.CheckConfigurationResponse:
    answer = await configuration.query(bus, "check", {"text": request.text})
    return filled(admin.CheckConfigurationResponse(), answer)


async def list_configuration_versions(
    bus: Bus, _: Caller, request: admin.ListConfigurationVersionsRequest
) -> admin.ListConfigurationVersionsResponse:
    answer = await configuration.query(bus, "history", _of_rm(request))
    return filled(admin.ListConfigurationVersionsResponse(), answer)


async def get_configuration_version(
    bus: Bus, _: Caller, request: admin.GetConfigurationVersionRequest
) -> admin.ConfigurationText:
    answer = await configuration.query(bus, "show", {"version": request.version, **_of_rm(request)})
    return filled(admin.ConfigurationText(), answer)


async def diff_configuration(
    bus: Bus, _: Caller, request: admin.DiffConfigurationRequest
) -> admin.DiffConfigurationResponse:
    compared_with = request.WhichOneof("compared_with")
    if compared_with is None:
        raise Refused("after: missing, expected a version, or a text")
    with_what = {"text": request.text} if compared_with == "text" else {"to": request.after}
    answer = await configuration.query(bus, "diff", {"from": request.before, **with_what, **_of_rm(request)})
    return filled(admin.DiffConfigurationResponse(), answer)


async def apply_configuration(
    bus: Bus, caller: Caller, request: admin.ApplyConfigurationRequest
) -> admin.ConfigurationChanged:
    if request.edits and request.text:
        raise Refused("text and edits: expected one of them")
    what = {"edits": [_edit(one) for one in request.edits]} if request.edits else {"text": request.text}
    options = {"message": request.message, "for_ms": request.for_ms, "overwrite": request.overwrite}
    return await _change(bus, caller, "update", {**what, **options, **_base(request)})


async def rollback_configuration(
    bus: Bus, caller: Caller, request: admin.RollbackConfigurationRequest
) -> admin.ConfigurationChanged:
    options = {"message": request.message, "overwrite": request.overwrite}
    return await _change(bus, caller, "rollback", {"version": request.version, **options, **_base(request)})


async def confirm_configuration(
    bus: Bus, caller: Caller, request: admin.ConfirmConfigurationRequest
) -> admin.ConfigurationChanged:
    return await _change(bus, caller, "confirm", {"version": request.version} if request.version else {})


async def preview_configuration(bus: Bus, _: Caller, request: admin.PreviewRequest) -> admin.PreviewResponse:
    rm = rm_of(request)
    checked = await configuration.query(bus, "check", {"text": request.text, "configuration": True})
    if not checked["valid"]:
        return filled(admin.PreviewResponse(), checked)
    try:
        proposal = config_pb2.Configuration.FromString(base64.b64decode(checked["configuration"]))
    except (KeyError, ValueError, DecodeError) as error:
        raise Unreadable(f"the answer of the configuration service cannot be read: {error!r}") from error
    answer = json.loads(await preview.answer(bus, rm, proposal, request.passes or PASSES, request.limit or ROWS))
    response = filled(admin.PreviewResponse(), answer)
    set_head(response.head, answer)
    return response


async def _change(bus: Bus, caller: Caller, verb: str, request: Mapping[str, Any]) -> admin.ConfigurationChanged:
    return filled(admin.ConfigurationChanged(), await configuration.change(bus, caller.operator, verb, request))


def _of_rm(request: Any) -> dict[str, str]:
    return {"rm": rm_of(request)} if request.rm else {}


def _base(request: Any) -> dict[str, int]:
    return {"base": request.base} if request.base else {}


def _edit(edit: admin.ConfigurationEdit) -> dict[str, Any]:
    names = ("do", "queue", "partition", "key")
    found: dict[str, Any] = {name: value for name in names if (value := getattr(edit, name))}
    if edit.do == "set":
        found["value"] = edit.value
    if edit.values:
        found["values"] = dict(edit.values)
    return found
