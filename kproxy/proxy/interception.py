"""What the relay changes in frames: the interceptors of each connection."""

from __future__ import annotations

import socket
from dataclasses import dataclass

from dissectors.interception.intercepted_connection import InterceptedConnection
from dissectors.interception.intercepted_stream import TooLarge
from dissectors.interception.interceptor import Interceptor
from dissectors.interception.version_cap import VersionCap
from kproxy.proxy.advertised_listeners import Advertise, AdvertisedListeners, local_address
from kproxy.proxy.bound_listeners import BoundListeners
from kproxy.proxy.events import FrameTooLarge, Report
from kproxy.proxy.listener import BoundListener, Listener


@dataclass(frozen=True, slots=True)
class Rewriting:
    """What the relay changes in frames.

    Attributes:
        advertise: How brokers' addresses are rewritten; None if they are not.
        cap_versions: Whether API versions without a schema are hidden from clients.
    """

    advertise: Advertise | None = None
    cap_versions: bool = False


class Interception:
    """Creates the interceptors of each connection.

    Args:
        rewriting: What the interceptors change.
        listeners: The relay's listeners.
        report: Called with events for the user.
    """

    def __init__(
        self,
        rewriting: Rewriting,
        listeners: BoundListeners,
        report: Report,
    ) -> None:
        self._caps_versions = rewriting.cap_versions
        self._advertised = (
            None if rewriting.advertise is None else AdvertisedListeners(rewriting.advertise, listeners, report)
        )
        self._report = report
        self._reported_api_keys: set[int] = set()  # of frames that were too large

    def add_bootstrap(self, bound: BoundListener) -> None:
        """Add an open listener of the command line or the configuration file."""
        if self._advertised is not None:
            self._advertised.add_bootstrap(bound)

    def remove_bootstrap(self, bound: BoundListener) -> None:
        """Remove a listener that was closed because it is no longer in the configuration."""
        if self._advertised is not None:
            self._advertised.remove_bootstrap(bound)

    def route(self, bound: BoundListener, requested_name: str | None) -> Listener:
        """Return the listener for a client that connected to `bound` and sent this host name as SNI."""
        if self._advertised is not None and requested_name is not None:
            return self._advertised.listener_for_name(bound, requested_name).now
        return bound.now

    def for_connection(self, bound: BoundListener, accepted: socket.socket) -> InterceptedConnection | None:
        """Return the interception for a new connection, or None if nothing is changed."""
        interceptors: list[Interceptor] = []
        if self._caps_versions:
            interceptors.append(VersionCap())
        if self._advertised is not None:
            interceptors.append(self._advertised.rewriter(bound, local_address(accepted)))
        return InterceptedConnection(interceptors, report=self._report_too_large) if interceptors else None

    def _report_too_large(self, event: TooLarge) -> None:
        if event.header.api_key not in self._reported_api_keys:
            self._reported_api_keys.add(event.header.api_key)
            self._report(FrameTooLarge(event.header.api_key, event.size))
