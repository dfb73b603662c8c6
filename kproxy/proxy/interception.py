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
        cap_versions: Hide API versions that the schemas do not have.
    """

    advertise: Advertise | None = None
    cap_versions: bool = False


class Interception:
    """Creates the interceptors of each connection.

    Args:
        rewriting: What the interceptors change.
        listeners: Of the relay.
        report: Called with events for the user.
    """

    def __init__(
        self,
        rewriting: Rewriting,
        listeners: BoundListeners,
        report: Report,
    ) -> None:
        self._cap = rewriting.cap_versions
        self._brokers = (
            None if rewriting.advertise is None else AdvertisedListeners(rewriting.advertise, listeners, report)
        )
        self._report = report
        self._too_large: set[int] = set()  # API keys of frames that were reported

    def add_bootstrap(self, bound: BoundListener) -> None:
        """A listener of the command line or the configuration file is open."""
        if self._brokers is not None:
            self._brokers.add_bootstrap(bound)

    def remove_bootstrap(self, bound: BoundListener) -> None:
        """A listener was closed because the configuration no longer has it."""
        if self._brokers is not None:
            self._brokers.remove_bootstrap(bound)

    def route(self, bound: BoundListener, requested_name: str | None) -> Listener:
        """Return the listener for a connection to `bound` whose client sent this host name as SNI."""
        if self._brokers is not None and requested_name is not None:
            return self._brokers.by_name(bound, requested_name).now
        return bound.now

    def of(self, bound: BoundListener, accepted: socket.socket) -> InterceptedConnection | None:
        """Return the interception of a new connection; None if nothing is changed."""
        interceptors: list[Interceptor] = []
        if self._cap:
            interceptors.append(VersionCap())
        if self._brokers is not None:
            interceptors.append(self._brokers.rewriter(bound, local_address(accepted)))
        return InterceptedConnection(interceptors, report=self._report_too_large) if interceptors else None

    def _report_too_large(self, event: TooLarge) -> None:
        if event.header.api_key not in self._too_large:
            self._too_large.add(event.header.api_key)
            self._report(FrameTooLarge(event.header.api_key, event.size))
