"""Stories, by an event service."""

from __future__ import annotations

import json

from remuda_bus import limits, subjects
from remuda_bus.bus import Bus, Unanswered
from remuda_operations.operator_api.callers import Caller
from remuda_operations.operator_api.messages import filled
from remuda_operations.operator_api.pages import decoded, encoded, rm_of
from remuda_operations.queries import NoAnswer
from remuda_proto.remuda.v1 import admin_pb2 as admin


async def get_story(bus: Bus, _: Caller, request: admin.GetStoryRequest) -> admin.GetStoryResponse:
    asked = {"id": request.id, "limit": request.limit}
    if request.page_token:
        asked["after"] = decoded(request.page_token)
    if request.since_ms:
        asked["since_ms"] = request.since_ms
    subject = subjects.story(rm_of(request))
    try:
        reply = await bus.request(subject, json.dumps(asked).encode(), timeout_s=limits.STORY_TIMEOUT_S)
    except Unanswered as error:
        raise NoAnswer(f"no event service answers ({error}); `remuda status` shows which services run") from error
    answer = json.loads(reply.payload)
    response = filled(admin.GetStoryResponse(), answer)
    if answer.get("next") is not None:
        response.next_page_token = encoded(answer["next"])
    if answer.get("resume") is not None:
        response.resume_token = encoded(answer["resume"])
    return response
