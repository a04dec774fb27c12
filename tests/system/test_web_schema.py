"""Any request that the OpenAPI document allows, against a real system: no error of the server, and answers as the
document says."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.system.test_web_methods import RM, web

__all__ = ["web"]
pytestmark = pytest.mark.asyncio(loop_scope="module")
EXAMPLES = 3  # for each of some 90 operations
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
# Answers without end; `test_web_methods` reads them.
ENDLESS = ("/stream", "/watch/", "/api/v1/events")
# No resource manager of Peloton runs here, and no service that answers about the past: 503. So it is with a moment, and
# with commits that are yet to come.
ABSENT = ("/peloton/", "/replays")
ELSEWHERE = ("at", "min_log_seq")
SHORT = settings(
    max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip


def play(url: str) -> dict[str, str]:
    """The failures by operation."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    failed: dict[str, str] = {}
    with requests.Session() as session:
        every: Any = schema.get_all_operations()
        for found in every:
            operation = found.ok()
            if any(word in operation.path for word in ENDLESS):
                continue

            @SHORT
            @given(case=operation.as_strategy(), known=st.booleans())
            def answers(case: Any, known: bool) -> None:
                if known and "rm" in case.path_parameters:
                    case.path_parameters["rm"] = RM
                if "wait_ms" in (case.query or {}):
                    case.query["wait_ms"] = 0
                for elsewhere in ELSEWHERE:
                    (case.query or {}).pop(elsewhere, None)
                checks = CHECKS[1:] if any(word in case.operation.path for word in ABSENT) else CHECKS
                case.validate_response(case.call(session=session), checks=checks)

            try:
                answers()
            except BaseException as error:  # noqa: BLE001 - groups of failures are no Exception
                failed[operation.label] = str(getattr(error, "exceptions", error))
    return failed


async def test_no_request_of_the_document_is_too_much(web: httpx.AsyncClient) -> None:
    url = f"{web.base_url.scheme}://{web.base_url.netloc.decode()}"
    failed = await asyncio.to_thread(play, url)
    assert not failed, "\n".join(f"{label}: {why}" for label, why in failed.items())
