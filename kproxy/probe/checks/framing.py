"""Bytes on the connection: requests that are split, joined or damaged."""

from __future__ import annotations

import asyncio

from kproxy.probe.check import CheckFailed, check
from kproxy.probe.target import Target

_PIPELINED_COUNT = 100
_SEGMENT_COUNT = 20
_NETWORK = "clients/src/main/java/org/apache/kafka/common/network/NetworkReceive.java"


@check("framing/one-byte-at-a-time", _NETWORK)
async def check_one_byte_at_a_time(target: Target) -> None:
    """A request that arrives byte by byte is answered.

    TCP has no message boundaries: a slow network may deliver pieces of any size.
    """
    async with target.connection() as connection:
        request = target.frame(connection, "ApiVersions", 0)
        for byte in request:
            connection.send(bytes([byte]))
            await asyncio.sleep(0)
        await target.receive(connection, request)


@check("framing/split-at-every-byte", _NETWORK)
async def check_split_at_every_byte(target: Target) -> None:
    """A request that arrives in two segments is answered, wherever it is split.

    Brokers that expect the length prefix, or the header, in one read fail only under load.
    """
    async with target.connection() as connection:
        size = len(target.frame(connection, "ApiVersions", 0))
        for offset in range(1, size):
            request = target.frame(connection, "ApiVersions", 0)
            connection.send(request[:offset])
            await asyncio.sleep(0.005)  # so that the two parts leave in separate segments
            connection.send(request[offset:])
            try:
                await target.receive(connection, request)
            except CheckFailed as error:
                raise CheckFailed(f"split after byte {offset}: {error}", *error.evidence) from None


@check("framing/frames-in-one-segment", _NETWORK)
async def check_frames_in_one_segment(target: Target) -> None:
    """Several requests that arrive in one segment are all answered, in order.

    Clients send several requests without waiting; a broker that drops those after the first one never answers them.
    """
    await _check_pipelined(target, _SEGMENT_COUNT)


@check("framing/pipelined", "https://kafka.apache.org/protocol#protocol_network")
async def check_pipelined(target: Target) -> None:
    """A hundred requests in flight are answered in the order of the requests.

    Clients pair each response with the oldest request. A different order breaks them even if correlation ids are right.
    """
    await _check_pipelined(target, _PIPELINED_COUNT)


@check("framing/zero-size", _NETWORK)
async def check_zero_size(target: Target) -> None:
    """A length prefix of 0 closes the connection.

    A broker that ignores it is out of step with the client.
    """
    await _check_closes(target, bytes(4), "a length prefix of 0")


@check("framing/negative-size", _NETWORK)
async def check_negative_size(target: Target) -> None:
    """A negative length prefix closes the connection.

    A broker that treats it as a large number waits for bytes that never come.
    """
    await _check_closes(target, b"\xff\xff\xff\xff" + bytes(16), "a length prefix of -1")


@check("framing/huge-size", "socket.request.max.bytes")
async def check_huge_size(target: Target) -> None:
    """A length prefix of 2 GiB closes the connection, instead of waiting for the bytes.

    A broker that waits, or allocates the memory, can be stopped by anyone who connects.
    """
    await _check_closes(target, b"\x7f\xff\xff\xff" + bytes(16), "a length prefix of 2147483647")


@check("framing/garbage", _NETWORK)
async def check_garbage(target: Target) -> None:
    """Bytes of another protocol close the connection, and other connections continue.

    Port scanners and health checks send such bytes to every port.
    """
    async with target.connection() as other_connection:
        await target.request(other_connection, "ApiVersions", 0)
        await _check_closes(target, b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n", "an HTTP request")
        await target.request(other_connection, "ApiVersions", 0)


@check("framing/truncated-request", "clients/src/main/java/org/apache/kafka/common/requests/RequestHeader.java")
async def check_truncated_request(target: Target) -> None:
    """A request whose length prefix is too small for its body closes the connection.

    Otherwise the broker reads into the next request, or waits for bytes that never come.
    """
    async with target.connection() as connection:
        request = target.frame(connection, "Metadata", None, topics=[{"name": "kproxy-probe"}])
        truncated = (len(request) - 7).to_bytes(4, "big") + request[4:-3]
        connection.send(truncated)
        await target.expect_close(connection, "a Metadata request that lacks its last 3 bytes")


@check("framing/half-close", "clients/src/main/java/org/apache/kafka/common/network/Selector.java")
async def check_half_close(target: Target) -> None:
    """A client that ends its side of an idle connection sees the broker end the other side.

    Otherwise, connections whose clients have gone stay open.
    """
    async with target.connection() as connection:
        await target.request(connection, "ApiVersions", 0)
        connection.end()
        await target.expect_close(connection, "the client's FIN")


async def _check_pipelined(target: Target, count: int) -> None:
    async with target.connection() as connection:
        requests = [target.frame(connection, "ApiVersions", 0) for _ in range(count)]
        connection.send(b"".join(requests))
        for number, request in enumerate(requests, 1):
            try:
                await target.receive(connection, request)
            except CheckFailed as error:
                raise CheckFailed(f"request {number} of {count}: {error}", *error.evidence) from None


async def _check_closes(target: Target, data: bytes, description: str) -> None:
    async with target.connection() as connection:
        connection.send(data)
        await target.expect_close(connection, description)
    await target.expect_still_serving()
