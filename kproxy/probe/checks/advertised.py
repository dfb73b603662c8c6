"""Checks that a harmless request in every advertised version of every API gets a response that fits it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dissectors import schemas
from dissectors.schemas.codes import ApiKey
from kproxy.client.request import ClientRequest
from kproxy.probe.check import Check, CheckFailed, CheckSkipped, family
from kproxy.probe.harmless import NOT_FOR_CLIENTS, harmless_values
from kproxy.probe.target import BrokerResponse, Target

_PAGE = """The broker advertises this version in ApiVersions, so clients send it. kproxy sends a harmless request, which
changes nothing. An error code in the response is an answer."""
_FIRST_PRODUCE_VERSION = 3
_FIRST_BATCHED_VERSION = 4  # FindCoordinator has an array of keys from here on (KIP-699)
_SOURCE = "https://kafka.apache.org/protocol"


@family
def advertised_version_checks() -> Iterator[Check]:
    """Yield three checks for each version of each API that clients may send."""
    for api in schemas.apis():
        if api.name in NOT_FOR_CLIENTS or schemas.request(api.key) is None:
            continue
        for version in api.versions:
            name = f"{api.name} v{version}"
            # These versions create __consumer_offsets. Later ones also work without a key.
            writes = api.key == ApiKey.FIND_COORDINATOR and version < _FIRST_BATCHED_VERSION
            for number, (title, run) in enumerate(
                (
                    (f"{name} gets a response with its correlation id", _check_response),
                    (f"the {name} response decodes to its last byte", _check_decoding),
                    (f"the {name} response has no finding", _check_findings),
                ),
                1,
            ):
                check_id = f"{api.name}/v{version}/{number}"
                yield Check(check_id, title, _PAGE, (_SOURCE,), partial(run, api, version), writes)


async def _check_response(api: schemas.Api, version: int, target: Target) -> BrokerResponse:
    lowest, highest = target.served.get(api.key, (0, -1))
    if not lowest <= version <= highest:
        raise CheckSkipped("not advertised")
    if api.key == ApiKey.PRODUCE and version < _FIRST_PRODUCE_VERSION:
        raise CheckSkipped("Kafka 4 lists it for old versions of librdkafka, and refuses it (KIP-896)")
    async with target.connection() as connection:
        request = ClientRequest(api, version, harmless_values(api, version)).frame(connection.next_correlation_id())
        connection.send(request)
        return await target.receive_any(connection, request)


async def _require_response(api: schemas.Api, version: int, target: Target) -> BrokerResponse:
    try:
        return await _check_response(api, version, target)
    except CheckFailed:
        raise CheckSkipped(f"{api.name}/v{version}/1 fails") from None


async def _check_decoding(api: schemas.Api, version: int, target: Target) -> BrokerResponse:
    response = await _require_response(api, version, target)
    message = response.message
    if message.error is None and not message.opaque and not message.trailing:
        return response
    finding = next((finding for finding in response.evidence[1].findings if finding.problem.diagnosis), None)
    if finding is not None:
        raise response.failure(f"{finding.code} {finding.name}: {finding.problem.message}")
    raise response.failure(str(message.error or message.opaque or f"{message.trailing} bytes follow its last field"))


async def _check_findings(api: schemas.Api, version: int, target: Target) -> None:
    try:
        response = await _check_decoding(api, version, target)
    except CheckFailed:
        raise CheckSkipped(f"{api.name}/v{version}/2 fails") from None
    findings = [
        finding for finding in response.evidence[1].findings if finding.severity != "info" and finding.blame != "client"
    ]
    if findings:
        raise response.failure(f"{findings[0].code} {findings[0].name}: {findings[0].problem.message}")
