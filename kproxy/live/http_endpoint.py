"""``--http``: health and metrics of the running proxy, served by the relay's own loop.

They are not served by the inspector's process: a failed inspector must not make the proxy look dead.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from kproxy.io.extras import install_command
from kproxy.live.health import Health
from kproxy.live.http_server import HttpRequest, HttpResponse, HttpServer
from kproxy.live.inspector_watch import InspectorWatch
from kproxy.outputs.stderr import warn
from kproxy.proxy.address import Address
from kproxy.proxy.inspector_figures import FiguresReader
from kproxy.proxy.relay import Relay
from kproxy.proxy.sockets import listen
from kproxy.proxy.tap import Tap
from kproxy.trace.state import TraceState

if TYPE_CHECKING:
    from kproxy.live.relay_metrics import RelayMetrics

_METRICS_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_FRESH_S: Final = 1.0  # metrics are not computed more often than this


class HttpEndpoint:
    """Serves the paths of ``--http``; `addresses` are those of the listening sockets."""

    def __init__(
        self, relay: Relay, tap: Tap, figures: FiguresReader, watch: InspectorWatch, trace: TraceState | None
    ) -> None:
        self.addresses: list[str] = []
        self.health = Health(relay, tap, watch, trace)
        self._metrics = _open_metrics(relay, tap, figures, watch, trace)
        self._metrics_text = b""
        self._fresh_until = -math.inf  # in the loop's time

    async def respond(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a GET request."""
        match request.path:
            case "/healthz":
                is_ready, report = await self.health.report()
                return HttpResponse.json(HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE, report)
            case "/livez":
                return HttpResponse.json(HTTPStatus.OK, {"status": "ok"})
            case "/metrics":
                return self._metrics_response()
            case _:
                return HttpResponse.text(HTTPStatus.NOT_FOUND, "kproxy serves /healthz, /livez and /metrics")

    def _metrics_response(self) -> HttpResponse:
        if self._metrics is None:
            sentence = "/metrics needs the extra 'metrics' of kproxy (prometheus-client): install it and restart kproxy"
            return HttpResponse.text(HTTPStatus.NOT_IMPLEMENTED, sentence)
        now = asyncio.get_running_loop().time()
        if now >= self._fresh_until:
            self._metrics_text = self._metrics.text()
            self._fresh_until = now + _FRESH_S
        return HttpResponse(HTTPStatus.OK, self._metrics_text, _METRICS_TYPE)


@asynccontextmanager
async def serve_http(
    address: Address,
    relay: Relay,
    tap: Tap,
    figures: FiguresReader,
    watch: InspectorWatch,
    trace: TraceState | None = None,
) -> AsyncIterator[HttpEndpoint]:
    """Answer requests while the block lasts. `trace` is None if no trace is written.

    Raises:
        ListenError: The address cannot be listened on.
    """
    sockets = await asyncio.to_thread(listen, address, "--http")
    failures: set[str] = set()

    def report_failure(error: Exception) -> None:
        sentence = f"the HTTP endpoint failed ({type(error).__name__}: {error}); this is a bug in kproxy"
        if sentence not in failures and len(failures) < 10:
            failures.add(sentence)
            warn(sentence)

    endpoint = HttpEndpoint(relay, tap, figures, watch, trace)
    server = HttpServer(sockets, endpoint.respond, report_failure)
    endpoint.addresses = server.addresses
    try:
        yield endpoint
    finally:
        server.close()


def _open_metrics(
    relay: Relay, tap: Tap, figures: FiguresReader, watch: InspectorWatch, trace: TraceState | None
) -> RelayMetrics | None:
    try:
        from kproxy.live.relay_metrics import RelayMetrics
    except ImportError:
        warn(f"/metrics is not available; install what it needs with: {install_command('metrics')}")
        return None
    return RelayMetrics(relay, tap, figures, watch, trace)
