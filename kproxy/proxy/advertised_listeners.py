"""AdvertisedListeners: with ``--advertise``, the relay has a listener for each broker that responses name."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from dissectors.connections.addresses import LOOPBACK, canonicalize_host
from dissectors.interception.addresses import AddressRewriter, BrokerAddress
from kproxy.proxy.address import Address, TcpAddress, UnixAddress
from kproxy.proxy.bound_listeners import BoundListeners
from kproxy.proxy.broker_names import BrokerNames
from kproxy.proxy.events import (
    BrokerListenerClosed,
    BrokerListening,
    BrokerMoved,
    BrokerNotListening,
    NewerVersion,
    Report,
)
from kproxy.proxy.listener import BoundListener, Listener
from kproxy.proxy.shortage import is_shortage
from kproxy.proxy.sockets import ListenError, listen

#: A broker counts as gone if no complete list has contained it for this long. Brokers restart in less time.
GONE_AFTER_S: Final = 60.0
#: Without free file descriptors, clients get the broker's own address until a later response finds some free.
_SHORTAGE_RETRY_S: Final = 1.0
#: The largest clusters have a few hundred brokers. The limit keeps faulty responses from opening ports without end.
MAX_BROKERS: Final = 1000
#: If the port of a broker is taken, others are tried at this distance.
_PORT_STEP: Final = 1000
_WILDCARDS = ("0.0.0.0", "::")  # noqa: S104
_LARGEST_PORT = 65535
#: As `Advertise.base`: the system chooses the port of each broker.
ANY_PORTS: Final = _LARGEST_PORT + 1


@dataclass(frozen=True, slots=True)
class Advertise:
    """What clients get instead of a broker's own address.

    Attributes:
        host: None means the host of the listener or, if that is a wildcard, the address that the client connected to.
        base: The broker with node id N gets port `base` + N. None means one more than the bootstrap listener's port.
        ports: The ports of brokers that have a port of their own, by node id.
        names: The host names of brokers, all of which then share one port.
    """

    host: str | None = None
    base: int | None = None
    ports: Mapping[int, int] = field(default_factory=dict)
    names: BrokerNames | None = None


@dataclass(slots=True, eq=False)
class _Broker:
    """A broker and its listener; `bound` is None if no listener could be opened.

    If brokers have names, the listener has no sockets: the bootstrap listener accepts its clients.
    """

    address: BrokerAddress
    bound: BoundListener | None
    seen_at: float


class AdvertisedListeners:
    """Opens listeners for brokers, retargets them when brokers move, and closes them when brokers leave.

    Each bootstrap listener has a view of its cluster, in which a node id identifies one broker. Views share the
    listeners of brokers that have the same id and address in both.

    Args:
        options: The addresses that clients get.
        listeners: The relay's listeners; those of brokers are opened, retargeted and closed here.
        report: Called with events for the user.
    """

    def __init__(self, options: Advertise, listeners: BoundListeners, report: Report) -> None:
        self._options = options
        self._listeners = listeners
        self._report = report
        self._bootstraps: list[BoundListener] = []
        self._views: dict[BoundListener, dict[int, _Broker]] = {}
        self._reported_versions: set[tuple[int, int]] = set()
        self._limit_reported = False
        self._reopen_at: dict[int, float] = {}  # by node id: when to try again

    def add_bootstrap(self, bound: BoundListener) -> None:
        """Add an open listener that was configured, not opened for a broker."""
        self._bootstraps.append(bound)
        self._views[bound] = {}

    def remove_bootstrap(self, bound: BoundListener) -> None:
        """Remove a closed bootstrap listener. Another one of the same cluster, if any, takes over its brokers."""
        brokers = self._views.pop(bound)
        self._bootstraps.remove(bound)
        heir = next(
            (
                cluster
                for cluster, view in self._views.items()
                if any(broker in view.values() for broker in brokers.values())
            ),
            None,
        )
        bound.bootstrap = heir  # for its open connections
        for view in self._views.values():  # brokers that the closed listener served itself get their own listeners
            for node_id in [node_id for node_id, broker in view.items() if broker.bound is bound]:
                del view[node_id]
        for node_id, broker in brokers.items():
            if broker.bound is None or broker.bound is bound or broker.bound in self._bootstraps:
                continue
            if heir is not None and self._views[heir].setdefault(node_id, broker) is broker:
                broker.bound.bootstrap = heir
            elif not any(broker in view.values() for view in self._views.values()):
                self._listeners.close(broker.bound)
                upstream = str(broker.bound.listener.upstream)
                self._report(BrokerListenerClosed(node_id, upstream, "its bootstrap listener was removed"))

    def rewriter(self, bound: BoundListener, local_host: str) -> AddressRewriter:
        """Return the rewriter for the responses of one connection.

        Args:
            bound: The listener that accepted the client.
            local_host: The IP address that the client connected to.
        """

        def translate(addresses: list[BrokerAddress], complete: bool) -> list[tuple[str, int] | None]:
            return self._translate(bound, local_host, addresses, complete)

        return AddressRewriter(translate, self._report_newer_version)

    def listener_for_name(self, bound: BoundListener, name: str) -> BoundListener:
        """Return the listener for a client that connected to `bound` and requested this host name."""
        names = self._options.names
        node_id = None if names is None else names.node_id(name)
        if node_id is None:
            return bound
        for view in (self._views.get(bound, {}), *self._views.values()):
            if (broker := view.get(node_id)) is not None and broker.bound is not None:
                return broker.bound
        return bound

    def _translate(
        self, bound: BoundListener, local_host: str, addresses: list[BrokerAddress], complete: bool
    ) -> list[tuple[str, int] | None]:
        view = self._views.get(bound.bootstrap or bound)
        if view is None:  # its bootstrap listener was removed
            return [None] * len(addresses)
        now = time.monotonic()
        own_addresses = self._own_addresses(local_host)
        names = self._options.names
        advertised: list[tuple[str, int] | None] = []
        for address in addresses:
            if (canonicalize_host(address.host), address.port) in own_addresses or (
                names is not None and names.is_advertised(address.host, address.port, (bound.bootstrap or bound).port)
            ):
                advertised.append(None)
                continue
            broker = self._find_or_add_broker(bound.bootstrap or bound, address, now)
            broker.seen_at = now
            advertised.append(self._advertised_address(broker, bound.bootstrap or bound, local_host))
        if complete and addresses:
            self._forget_departed(view, now)
        return advertised

    def _advertised_address(self, broker: _Broker, bootstrap: BoundListener, local_host: str) -> tuple[str, int] | None:
        """Return the host and port that clients get, or None if they get the broker's own address."""
        if broker.bound is None:
            return None
        if self._options.names is not None:
            return self._options.names.advertised_address(broker.address.node_id, bootstrap.port)
        return self._advertised_host(broker.bound, local_host), broker.bound.port

    def _find_or_add_broker(self, bootstrap: BoundListener, address: BrokerAddress, now: float) -> _Broker:
        """Return the broker with this id and address; open or retarget its listener if needed."""
        view = self._views[bootstrap]
        broker = view.get(address.node_id)
        if broker is not None and broker.address == address:
            if broker.bound is None and now >= self._reopen_at.get(address.node_id, 0.0):
                broker.bound = self._open(bootstrap, address, now)
            return broker
        for other_view in self._views.values():
            shared = other_view.get(address.node_id)
            if shared is not None and shared.address == address:
                view[address.node_id] = shared
                return shared
        upstream = TcpAddress(address.host, address.port)
        for listener in self._bootstraps:
            if _is_same_address(listener.listener.upstream, upstream):
                view[address.node_id] = _Broker(address, listener, now)
                return view[address.node_id]
        if broker is not None and broker.bound is not None and broker.bound not in self._bootstraps:
            self._report(BrokerMoved(address.node_id, str(broker.bound.listener.upstream), str(upstream)))
            self._listeners.retarget(broker.bound, replace(broker.bound.listener, upstream=upstream))
            broker.address = address
            return broker
        if len(view) >= MAX_BROKERS:
            if not self._limit_reported:
                self._limit_reported = True
                self._report(
                    BrokerNotListening(address.node_id, str(upstream), f"{MAX_BROKERS} brokers have listeners")
                )
            return _Broker(address, None, now)
        view[address.node_id] = _Broker(address, self._open(bootstrap, address, now), now)
        return view[address.node_id]

    def _open(self, bootstrap: BoundListener, address: BrokerAddress, now: float) -> BoundListener | None:
        upstream = TcpAddress(address.host, address.port)
        template = replace(bootstrap.listener, upstream=upstream)
        if self._options.names is not None:
            advertised = TcpAddress(*self._options.names.advertised_address(address.node_id, bootstrap.port))
            self._report(BrokerListening(address.node_id, str(upstream), str(advertised)))
            return BoundListener(template, bootstrap=bootstrap)
        failure = "all ports are taken"
        for port in self._candidate_ports(bootstrap, address.node_id):
            sockets: list[socket.socket] = []
            try:
                for host in bootstrap.hosts:
                    sockets += listen(TcpAddress(host, port), "--advertise")
            except ListenError as error:
                failure = str(error)
                for sock in sockets:
                    sock.close()
                if error.cause is not None and is_shortage(error.cause):
                    self._listeners.pause_for(error.cause)
                    self._reopen_at[address.node_id] = now + _SHORTAGE_RETRY_S
                    return None
                continue
            listener = replace(template, listen=TcpAddress(bootstrap.hosts[0], port))
            bound_listener = BoundListener(listener, bootstrap=bootstrap)
            self._listeners.add(bound_listener, sockets)
            self._report(BrokerListening(address.node_id, str(upstream), bound_listener.acceptors[0].name))
            return bound_listener
        self._reopen_at[address.node_id] = now + GONE_AFTER_S
        self._report(BrokerNotListening(address.node_id, str(upstream), failure))
        return None

    def _candidate_ports(self, bootstrap: BoundListener, node_id: int) -> Sequence[int]:
        """Return the ports to try for a broker, best first."""
        if node_id in self._options.ports:
            return [self._options.ports[node_id]]
        base_port = self._options.base if self._options.base is not None else bootstrap.port + 1
        first_port = base_port + node_id
        if node_id < 0 or first_port > _LARGEST_PORT:
            return [0]
        return range(first_port, min(first_port + 10 * _PORT_STEP, _LARGEST_PORT + 1), _PORT_STEP)

    def _advertised_host(self, bound: BoundListener, local_host: str) -> str:
        if self._options.host is not None:
            return self._options.host
        address = (bound.bootstrap or bound).listener.listen
        assert isinstance(address, TcpAddress)
        return local_host if address.host in _WILDCARDS else address.host or "localhost"

    def _own_addresses(self, local_host: str) -> set[tuple[str, int]]:
        """Return the relay's own addresses. A broker that advertises one of these keeps it."""
        brokers = (broker for view in self._views.values() for broker in view.values())
        bound_listeners = {
            *self._bootstraps,
            *(broker.bound for broker in brokers if broker.bound is not None and broker.bound.acceptors),
        }
        own_addresses = set()
        for listener in bound_listeners:
            hosts = [*listener.hosts, local_host, self._advertised_host(listener, local_host)]
            if any(host in _WILDCARDS for host in hosts):
                hosts.append(LOOPBACK)
            own_addresses |= {(canonicalize_host(host), listener.port) for host in hosts}
        return own_addresses

    def _forget_departed(self, view: dict[int, _Broker], now: float) -> None:
        for node_id, broker in list(view.items()):
            if now - broker.seen_at < GONE_AFTER_S:
                continue
            del view[node_id]
            if broker.bound is None or broker.bound in self._bootstraps:
                continue
            if any(broker in other_view.values() for other_view in self._views.values()):
                continue
            self._listeners.close(broker.bound)
            upstream = str(broker.bound.listener.upstream)
            self._report(BrokerListenerClosed(node_id, upstream, "the broker has left the cluster"))

    def _report_newer_version(self, api_key: int, api_version: int) -> None:
        if (api_key, api_version) not in self._reported_versions and len(self._reported_versions) < 1000:
            self._reported_versions.add((api_key, api_version))
            self._report(NewerVersion(api_key, api_version))


def _is_same_address(address: Address, broker_address: TcpAddress) -> bool:
    if not isinstance(address, TcpAddress):
        return False
    return address.port == broker_address.port and canonicalize_host(address.host or LOOPBACK) == canonicalize_host(
        broker_address.host or LOOPBACK
    )


def local_address(sock: socket.socket) -> str:
    """Return the IP address that a client connected to; IPv4 in IPv4 notation even on a dual-stack socket."""
    with suppress(OSError, IndexError, TypeError):
        return str(sock.getsockname()[0]).removeprefix("::ffff:").partition("%")[0]
    return "localhost"


def check_listeners(listeners: Sequence[Listener], options: Advertise) -> str | None:
    """Return why addresses cannot be advertised for these listeners, or None if they can."""
    for listener in listeners:
        if isinstance(listener.listen, UnixAddress):
            return f"--advertise needs TCP: clients cannot be directed to {listener.listen}"
        if options.names is not None and listener.tls.client is None:
            return "--advertise with $id in a host name needs TLS, which tells the names apart: pass --tls-cert"
    return None
