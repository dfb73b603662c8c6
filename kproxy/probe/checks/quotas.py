"""Client quotas: setting and describing them, and the throttle time in responses (KIP-13, KIP-219, KIP-546)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from dissectors import schemas
from dissectors.schemas.codes import ApiKey, Error
from kproxy.client.connection import BrokerConnection
from kproxy.probe.check import CheckFailed, CheckSkipped, check
from kproxy.probe.harmless import NOT_FOR_CLIENTS, harmless_values
from kproxy.probe.scratch import batch, expect, poll_until, scratch_topic
from kproxy.probe.target import BrokerResponse, Target

_MANAGER = "server/src/main/java/org/apache/kafka/server/quota/ClientQuotaManager.java"
_CONTROLLER = "metadata/src/main/java/org/apache/kafka/controller/ClientQuotaControlManager.java"
_EXACT: Final = 0  # match type of DescribeClientQuotas
_RATE, _SIZE = 1000.0, 20_000  # bytes per second, and a number of bytes that exceeds them in Kafka's window of 10 s
_REJECTED: Final = (Error.CLUSTER_AUTHORIZATION_FAILED, Error.UNSUPPORTED_VERSION)


@check("quotas/no-throttle", "KIP-124", "KIP-219")
async def check_no_throttle(target: Target) -> None:
    """A client that has sent little gets throttle_time_ms=0 in the responses to all APIs.

    Clients send nothing for that time. An uninitialized field delays them without any error.
    """
    throttled_responses = []
    for api in schemas.apis():
        # Old versions of FindCoordinator create __consumer_offsets.
        if api.key in target.served and api.name not in NOT_FOR_CLIENTS and api.key != ApiKey.FIND_COORDINATOR:
            try:
                async with target.connection() as connection:
                    version = target.version(api.name)
                    response = await target.request(connection, api.name, version, **harmless_values(api, version))
            except (CheckFailed, CheckSkipped):
                continue  # other checks report this
            if response.body.get("throttle_time_ms"):
                throttled_responses.append(
                    (response, f"{api.name} v{version} returns {response.body['throttle_time_ms']} ms")
                )
    if throttled_responses:
        raise throttled_responses[0][0].failure("; ".join(text for _, text in throttled_responses))


@check("quotas/round-trip", "KIP-546", _CONTROLLER, writes=True)
async def check_round_trip(target: Target) -> None:
    """A quota that was set for a client id is described, and no longer after it was removed.

    Operators and provisioning tools compare the described quotas with the wanted ones.
    """
    client, quotas = target.new_name("client"), {"producer_byte_rate": 12345.0, "request_percentage": 50.5}
    async with target.connection() as connection:
        async with _with_quotas(target, connection, client, quotas):
            await _expect_described(target, connection, client, quotas)
        await _expect_described(target, connection, client, {})


@check("quotas/validate-only", "KIP-546", _CONTROLLER, writes=True)
async def check_validate_only(target: Target) -> None:
    """AlterClientQuotas rejects an unknown key with INVALID_REQUEST, and with validate_only it stores nothing.

    A misspelt quota that is accepted limits nobody.
    """
    client = target.new_name("client")
    async with target.connection() as connection:
        for key, expected in (("producer_byte_rate", Error.NONE), ("kproxy_no_such_quota", Error.INVALID_REQUEST)):
            response = await _alter_quotas(target, connection, client, {key: 1.0}, validate_only=True)
            expect(response.body["entries"][0]["error_code"], expected, f"AlterClientQuotas of {key}")
        await _expect_described(target, connection, client, {})


@check("quotas/produce", "KIP-13", "KIP-219", _MANAGER, writes=True)
async def check_produce(target: Target) -> None:
    """A producer above its quota gets the response at once, with the throttle time; other clients are not throttled.

    A broker that holds the response back instead makes the request time out, and the producer sends the records again.
    """
    client, data = target.new_name("client"), batch(b"x" * _SIZE)
    async with (
        scratch_topic(target) as topic,
        _with_quotas(target, topic.connection, client, {"producer_byte_rate": _RATE}),
    ):
        values = {"acks": -1, "timeout_ms": 10_000,
                  "topic_data": [{"name": topic.name, "partition_data": [{"index": 0, "records": data}]}]}  # fmt: skip
        await _expect_throttled(topic.target, client, "Produce", 9, values)
        other_response = await topic.request("Produce", 9, **values)
        if other_response.body["throttle_time_ms"]:
            raise other_response.failure("another client id is throttled, too")


@check("quotas/fetch", "KIP-13", "KIP-219", _MANAGER, writes=True)
async def check_fetch(target: Target) -> None:
    """A consumer above its quota gets the response at once, with the throttle time.

    A broker that holds the response back instead makes the request time out.
    """
    client = target.new_name("client")
    async with (
        scratch_topic(target) as topic,
        _with_quotas(target, topic.connection, client, {"consumer_byte_rate": _RATE}),
    ):
        expect((await topic.produce(batch(b"x" * _SIZE)))["error_code"], Error.NONE, "Produce")
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        values = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20,
                  "topics": [{"topic": topic.name, "partitions": [partition]}]}  # fmt: skip
        await _expect_throttled(topic.target, client, "Fetch", 11, values)


async def _expect_throttled(
    target: Target, client: str, api: str, max_version: int, values: Mapping[str, object]
) -> None:
    """Send a request as that client until it is throttled: a new quota takes effect with a delay."""
    limited_target, version = replace(target, client_id=client), min(max_version, target.version(api))

    async def send_timed() -> tuple[BrokerResponse, float]:
        async with limited_target.connection() as connection:  # brokers do not read from a throttled one
            started_at = time.monotonic()
            response = await limited_target.request(connection, api, version, **values)
            return response, 1000 * (time.monotonic() - started_at)

    response, elapsed_ms = await poll_until(target, send_timed, lambda timed: timed[0].body["throttle_time_ms"] > 0)
    throttle_ms = response.body["throttle_time_ms"]
    if throttle_ms <= 0:
        raise response.failure(f"{api} of {_SIZE} bytes is not throttled with a quota of {_RATE:g} bytes per second")
    if elapsed_ms >= throttle_ms:
        raise response.failure(f"{api} with a throttle time of {throttle_ms} ms is held back for {elapsed_ms:.0f} ms")


@asynccontextmanager
async def _with_quotas(
    target: Target, connection: BrokerConnection, client: str, quotas: Mapping[str, float]
) -> AsyncIterator[None]:
    """Set quotas of a client id, and remove them at the end."""
    response = await _alter_quotas(target, connection, client, quotas)
    [entry] = response.body["entries"]
    if entry["error_code"] in _REJECTED:
        raise CheckSkipped(f"quotas cannot be set: error {entry['error_code']}")
    expect(entry["error_code"], Error.NONE, "AlterClientQuotas")
    try:
        yield
    finally:
        remove_response = await _alter_quotas(target, connection, client, dict.fromkeys(quotas))
        expect(remove_response.body["entries"][0]["error_code"], Error.NONE, "AlterClientQuotas (remove)")


async def _alter_quotas(
    target: Target, connection: BrokerConnection, client: str, quotas: Mapping[str, float | None], **values: object
) -> BrokerResponse:
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in quotas.items()]
    entry = {"entity": [{"entity_type": "client-id", "entity_name": client}], "ops": ops}
    version = min(1, target.version("AlterClientQuotas"))
    response = await target.request(connection, "AlterClientQuotas", version, entries=[entry], **values)
    if len(response.body["entries"]) != 1:
        raise response.failure("the response does not have exactly the entry of the request")
    return response


async def _expect_described(
    target: Target, connection: BrokerConnection, client: str, expected: Mapping[str, float]
) -> None:
    """Fail unless DescribeClientQuotas returns exactly these quotas within the time limit."""
    component = {"entity_type": "client-id", "match_type": _EXACT, "match": client}
    version = min(1, target.version("DescribeClientQuotas"))

    def described_quotas(answer: BrokerResponse) -> dict[str, float]:
        entries: list[dict[str, Any]] = answer.body["entries"] or []
        return {value["key"]: value["value"] for entry in entries for value in entry["values"]}

    response = await poll_until(
        target,
        lambda: target.request(connection, "DescribeClientQuotas", version, components=[component], strict=True),
        lambda answer: described_quotas(answer) == expected,
    )
    expect(response.body["error_code"], Error.NONE, "DescribeClientQuotas")
    if described_quotas(response) != expected:
        raise response.failure(
            f"the quotas of the client id are {described_quotas(response) or 'none'} instead of {expected or 'none'}"
        )
