"""The health of a relay as reported by /healthz."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from kproxy.live import health
from kproxy.live.health import Health
from kproxy.live.inspector_watch import InspectorWatch
from kproxy.proxy.inspector_activity import InspectorActivity
from kproxy.proxy.relay import Relay
from kproxy.proxy.tap import Tap
from tests.kproxy.proxy.peers import Broker, Peer, connected, relaying, until


@asynccontextmanager
async def running_relay(broker: Broker) -> AsyncIterator[tuple[Health, Relay, socket.socket]]:
    sock, inspector = socket.socketpair()
    with inspector:
        tap = Tap(sock, node="n")
        async with relaying(broker.address, tap=tap) as relay:
            yield Health(relay, tap, InspectorWatch(tap, InspectorActivity(), lambda event: None)), relay, inspector
            inspector.close()


async def status(relay_health: Health) -> tuple[bool, str]:
    is_ready, report = await relay_health.report()
    return is_ready, report["status"]


async def connect_refused_client(relay: Relay) -> None:
    """Connect a client and wait until the relay has refused it."""
    with await Peer.connect(relay.addresses[0]) as client, suppress(ConnectionError):
        assert await client.rest() == b""
    await until(lambda: relay.down)


async def test_reports_ready_with_listeners_and_inspector() -> None:
    with Broker() as broker:
        async with running_relay(broker) as (relay_health, relay, _):
            assert await relay_health.report() == (
                True,
                {
                    "status": "ok",
                    "listening": relay.addresses,
                    "unreachable": {},
                    "inspector": "running, cannot be restarted",  # this tap has no `InspectedTable`
                    "inspector_lag_s": 0.0,
                },
            )


async def test_stopped_inspector_does_not_affect_readiness() -> None:
    with Broker() as broker:
        async with running_relay(broker) as (relay_health, relay, inspector):
            inspector.close()
            async with connected(relay, broker):
                await until(lambda: relay_health._tap.lost)
            is_ready, report = await relay_health.report()
    assert (is_ready, report["inspector"]) == (True, "stopped")


async def test_relay_is_not_ready_while_draining_or_not_listening() -> None:
    with Broker() as broker:
        async with running_relay(broker) as (relay_health, relay, _):
            relay.listeners.close_all()
            assert await status(relay_health) == (False, "not listening")
            relay_health.draining = True
            assert await status(relay_health) == (False, "draining")


async def test_relay_is_not_ready_if_the_upstream_is_unreachable() -> None:
    with Broker(down=True) as broker:
        async with running_relay(broker) as (relay_health, _, _):
            is_ready, report = await relay_health.report()
    assert (is_ready, report["status"]) == (False, "no upstream can be reached")
    assert report["unreachable"] == {broker.address: "connection refused"}


async def test_relay_is_ready_again_once_the_upstream_accepts_connections() -> None:
    with Broker(down=True) as broker:
        async with running_relay(broker) as (relay_health, relay, _):
            await connect_refused_client(relay)
            assert await status(relay_health) == (False, "no upstream can be reached")
            broker.start()
            relay_health._checked_at = 0
            assert await status(relay_health) == (True, "ok")
            assert relay.down  # no client has connected since


async def test_relay_is_not_ready_after_a_client_was_refused() -> None:
    with Broker() as broker:
        async with running_relay(broker) as (relay_health, relay, _):
            assert await status(relay_health) == (True, "ok")
            broker.stop()
            await connect_refused_client(relay)
            relay_health._checked_at -= 1  # a second later
            assert await status(relay_health) == (False, "no upstream can be reached")


async def test_concurrent_reports_share_one_connection_to_the_upstream() -> None:
    with Broker() as broker:
        async with running_relay(broker) as (relay_health, _, _):
            assert all(ready for ready, _ in await asyncio.gather(*(relay_health.report() for _ in range(100))))
            (await broker.accept()).socket.close()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await broker.accept()


async def test_connected_clients_prove_that_the_upstream_is_reachable() -> None:
    with Broker() as broker:
        async with running_relay(broker) as (relay_health, relay, _), connected(relay, broker):
            await until(lambda: relay.clients.is_connected)
            assert await status(relay_health) == (True, "ok")
            assert relay_health._checked_at < 0  # nothing was checked


async def test_check_is_shorter_than_the_kubernetes_timeout() -> None:
    assert health._CONNECT_TIMEOUT_S < 1


async def test_relay_is_not_ready_without_file_descriptors() -> None:
    with Broker() as broker:
        async with running_relay(broker) as (relay_health, relay, _):
            relay.listeners.pause_for(OSError(24, "Too many open files"))
            is_ready, report = await relay_health.report()
            assert not is_ready
            assert "no file descriptors" in report["status"]
            await until(lambda: not relay.listeners.lacks_resources)
            assert await status(relay_health) == (True, "ok")
