"""The application: all pages over a source, with compression."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware

from remuda_bus.bus import Bus
from remuda_operations.ledger.prices import Prices
from remuda_web import limits
from remuda_web.api_v1 import schemas
from remuda_web.api_v1.routes import NO_ADDRESS, Api, Welcome
from remuda_web.overview import Overviews, Rates
from remuda_web.queue_history import DeviceHistory, QueueHistory
from remuda_web.source import Source
from remuda_web.streams import Streams
from remuda_web.web_page import add_page
from remuda_web.ws_v1 import routes
from remuda_web.ws_v1.answers import Answers
from remuda_web.ws_v1.history import History


class Application(FastAPI):
    """`answers`, `queue_history`, `device_history`, `rates`: to add samples to the histories. `bus`: for the methods of
    operators; None: there are none. `fresh`: for health checks and samples, where `source` gives rows that are moments
    old. `welcome`: what a first resource manager needs to know. `prices`: of what ledgers hold."""

    def __init__(
        self, source: Source, version: str, started_ms: int, log_level: str, bus: Bus | None = None,
        fresh: Source | None = None, welcome: Welcome = NO_ADDRESS, prices: Prices | None = None,
    ) -> None:  # fmt: skip
        # The pages of FastAPI load scripts from other servers.
        super().__init__(title="remuda", version=version, redirect_slashes=False, docs_url=None, redoc_url=None)
        history = History()
        self.answers = Answers(fresh or source, history, started_ms)
        streams = Streams()
        routes.add_routes(self, self.answers, history, source, streams, log_level)
        self.queue_history, self.device_history, self.rates = QueueHistory(), DeviceHistory(), Rates()
        Api(
            source, self.queue_history, self.device_history, Overviews(self.rates), welcome, bus, streams, prices
        ).add_to(self)
        add_page(self)
        self.add_middleware(GZipMiddleware, minimum_size=limits.COMPRESSED_FROM_BYTES)

    def openapi(self) -> dict[str, Any]:
        document = super().openapi()
        document.setdefault("components", {}).setdefault("schemas", {}).update(schemas.components())
        return document
