"""`remuda log SERVICE LEVEL`: change what processes log, for a while."""

from __future__ import annotations

import json
from typing import Any

from remuda_bus import subjects

from ..access.permissions import SERVICES
from ..client.connections import bus_at
from ..errors import UserError
from ..local.services import package_of
from ..terminal import event_loop
from ..terminal.output import console

# Answers of processes to a change of their log level are awaited so long.
LOG_LEVEL_ANSWERS_S = 1.0

RM_SERVICES = ("kubernetes",)


def log_level(
    url: str, service: str, level: str, logger: str, for_s: float, as_json: bool, rm: str | None = None
) -> None:
    """Changes a log level. `service`: a service, or SERVICE.MODULE. `rm`: of a front end that is an RM. Raises
    UserError.
    """
    service, _, module = service.partition(".")
    if service not in (*SERVICES, *RM_SERVICES):
        raise UserError(f"{service!r} is no service: expected one of {', '.join((*SERVICES, *RM_SERVICES))}")
    if (rm is not None) != (service in RM_SERVICES):
        raise UserError(f"--rm is needed for {' and '.join(RM_SERVICES)}, and for nothing else")
    if module and logger:
        raise UserError("a module and --logger exclude each other")
    if module:
        logger = f"{package_of(service)}.{module}"
    subject = subjects.log_level(service) if rm is None else subjects.question(rm, "log_level")
    found = event_loop.run(lambda: _change(url, service, subject, level, logger, for_s))
    if as_json:
        print(json.dumps(found))
        return
    what = f"logger {logger} logs" if logger else "logs"
    for one in found:
        console.print(f"{service} {one['instance']}: {what} {level} for {for_s:g} s", markup=False, soft_wrap=True)


async def _change(url: str, service: str, subject: str, level: str, logger: str, for_s: float) -> list[dict[str, Any]]:
    request = json.dumps({"logger": logger, "level": level, "for_s": for_s}).encode()
    async with bus_at(url) as bus:
        answers = await bus.request_all(subject, request, within_s=LOG_LEVEL_ANSWERS_S)
    refused = [answer.headers[subjects.SERVICE_ERROR] for answer in answers if subjects.SERVICE_ERROR in answer.headers]
    if refused:
        raise UserError(f"{service}: {refused[0]}")
    if not answers:
        raise UserError(f"no process of the service {service} answers")
    return sorted((json.loads(answer.payload) for answer in answers), key=lambda one: str(one["instance"]))
