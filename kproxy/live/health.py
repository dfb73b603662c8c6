"""Whether the relay can serve clients, for load balancers and Kubernetes."""

from __future__ import annotations

import asyncio
import math
from typing import Any, Final

from kproxy.live.inspector_watch import InspectorWatch
from kproxy.proxy.client_opening import check_upstream
from kproxy.proxy.relay import Relay
from kproxy.proxy.sockets import reason
from kproxy.proxy.tap import Tap
from kproxy.trace.state import TraceState

_CONNECT_TIMEOUT_S: Final = 0.8  # Kubernetes waits one second for the whole answer
_SUCCESS_TTL_S: Final = 10.0  # an upstream that answered is not checked again for this time
_FAILURE_TTL_S: Final = 1.0  # the same for an upstream that did not answer, or has failed a client since


class Health:
    """Judges health by the clients' connections; if there are none, connects to the upstreams itself.

    Without the latter, a proxy that gets no clients because it is not ready would never become ready again.

    Attributes:
        draining: Whether the relay is about to end.

    Args:
        relay: The relay, with its listeners and clients.
        tap: The tap that feeds the inspector.
        watch: Knows whether the inspector responds.
        trace: The state of the trace; None if no trace is written.
    """

    def __init__(self, relay: Relay, tap: Tap, watch: InspectorWatch, trace: TraceState | None = None) -> None:
        self._trace = trace
        self.draining = False
        self._relay = relay
        self._tap = tap
        self._watch = watch
        self._lock = asyncio.Lock()
        self._checked_at = -math.inf  # in the loop's time
        self._failures: dict[str, str] = {}  # from the last check; empty if an upstream answered

    async def report(self) -> tuple[bool, dict[str, Any]]:
        """Return whether clients can be served, regardless of inspector and trace, and a human-readable report."""
        listening = self._relay.addresses
        down = self._relay.down
        unreachable = {str(address): down[address] for address in self._relay.listeners.upstreams if address in down}
        if self.draining:
            status = "draining"
        elif not listening:
            status = "not listening"
        elif self._relay.listeners.lacks_resources:
            status = "cannot accept connections: no file descriptors or no memory left"
        elif failures := await self._check_upstreams():
            status = "no upstream can be reached"
            unreachable |= failures
        else:
            status = "ok"
        report: dict[str, Any] = {
            "status": status,
            "listening": listening,
            "unreachable": unreachable,
            "inspector": self._inspector_status(),
            "inspector_lag_s": round(self._watch.lag, 1),
        }
        if self._trace is not None:
            report["trace"] = "written" if self._trace.failure is None else f"not written: {self._trace.failure}"
            report["trace_lost_lines"] = self._trace.lost_lines
        return status == "ok", report

    def _inspector_status(self) -> str:
        if self._tap.lost:
            return "stopped" if self._tap.gone else "restarting"
        if self._watch.is_stuck:
            return "not responding"
        return "running, cannot be restarted" if self._tap.is_last and not self.draining else "running"

    async def _check_upstreams(self) -> dict[str, str]:
        """Return the reason for each upstream if all are unreachable, otherwise an empty dictionary."""
        upstreams = self._relay.listeners.upstreams
        all_down = all(upstream in self._relay.down for upstream in upstreams)
        if self._relay.clients.is_connected and not all_down:
            return {}
        async with self._lock:  # concurrent requests share one check
            loop = asyncio.get_running_loop()
            if loop.time() >= self._checked_at + (_FAILURE_TTL_S if self._failures or all_down else _SUCCESS_TTL_S):
                errors = await asyncio.gather(
                    *(check_upstream(upstream, _CONNECT_TIMEOUT_S, self._relay.own) for upstream in upstreams.values())
                )
                failures = {
                    str(upstream): reason(error)
                    for upstream, error in zip(upstreams, errors, strict=True)
                    if error is not None
                }
                self._failures = failures if len(failures) == len(upstreams) else {}
                self._checked_at = loop.time()
            return self._failures
