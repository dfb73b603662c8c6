"""What /healthz reports of a relay."""

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
async def healthy(broker: Broker) -> AsyncIterator[tuple[Health, Relay, socket.socket]]:
    sock, inspector = socket.socketpair()
    with inspector:
        tap = Tap(sock, node="n")
        async with relaying(broker.address, tap=tap) as relay:
            yield Health(relay, tap, InspectorWatch(tap, InspectorActivity(), lambda event: None)), relay, inspector
            inspector.close()


async def status(found: Health) -> tuple[bool, str]:
    is_ready, report = await found.report()
    return is_ready, report["status"]


async def refused(relay: Relay) -> None:
    """A client comes and is refused."""
    with await Peer.connect(relay.addresses[0]) as client, suppress(ConnectionError):
        assert await client.rest() == b""
    await until(lambda: relay.down)


async def test_ready_with_the_listeners_and_the_inspector() -> None:
    with Broker() as broker:
        async with healthy(broker) as (found, relay, _):
            assert await found.report() == (
                True,
                {
                    "status": "ok",
                    "listening": relay.addresses,
                    "unreachable": {},
                    "inspector": "running, cannot be restarted",  # this tap has no table of what was inspected
                    "inspector_lag_s": 0.0,
                },
            )


async def test_a_stopped_inspector_is_mentioned_and_decides_nothing() -> None:
    with Broker() as broker:
        async with healthy(broker) as (found, relay, inspector):
            inspector.close()
            async with connected(relay, broker):
                await until(lambda: found._tap.lost)
            is_ready, report = await found.report()
    assert (is_ready, report["inspector"]) == (True, "stopped")


async def test_not_ready_while_the_relay_drains_or_does_not_listen() -> None:
    with Broker() as broker:
        async with healthy(broker) as (found, relay, _):
            relay.listeners.close_all()
            assert await status(found) == (False, "not listening")
            found.draining = True
            assert await status(found) == (False, "draining")


async def test_an_unreachable_upstream_without_any_client() -> None:
    with Broker(down=True) as broker:
        async with healthy(broker) as (found, _, _):
            is_ready, report = await found.report()
    assert (is_ready, report["status"]) == (False, "no upstream can be reached")
    assert report["unreachable"] == {broker.address: "connection refused"}


async def test_ready_again_when_the_upstream_answers_although_no_client_comes() -> None:
    with Broker(down=True) as broker:
        async with healthy(broker) as (found, relay, _):
            await refused(relay)
            assert await status(found) == (False, "no upstream can be reached")
            broker.start()
            found._checked_at = 0
            assert await status(found) == (True, "ok")
            assert relay.down  # no client has come since


async def test_not_ready_when_clients_are_refused_although_the_upstream_answered_just_before() -> None:
    with Broker() as broker:
        async with healthy(broker) as (found, relay, _):
            assert await status(found) == (True, "ok")
            broker.stop()
            await refused(relay)
            found._checked_at -= 1  # a second later
            assert await status(found) == (False, "no upstream can be reached")


async def test_a_hundred_questions_are_one_connection_to_the_upstream() -> None:
    with Broker() as broker:
        async with healthy(broker) as (found, _, _):
            assert all(ready for ready, _ in await asyncio.gather(*(found.report() for _ in range(100))))
            (await broker.accept()).socket.close()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await broker.accept()


async def test_clients_that_are_connected_prove_that_the_upstream_answers() -> None:
    with Broker() as broker:
        async with healthy(broker) as (found, relay, _), connected(relay, broker):
            await until(lambda: relay.clients.is_connected)
            assert await status(found) == (True, "ok")
            assert found._checked_at < 0  # nothing was checked


async def test_the_answer_does_not_take_longer_than_kubernetes_waits() -> None:
    assert health._CONNECT_S < 1


async def test_without_file_descriptors() -> None:
    with Broker() as broker:
        async with healthy(broker) as (found, relay, _):
            relay.listeners.pause_for(OSError(24, "Too many open files"))
            is_ready, report = await found.report()
            assert not is_ready
            assert "no file descriptors" in report["status"]
            await until(lambda: not relay.listeners.lacks_resources)
            assert await status(found) == (True, "ok")
