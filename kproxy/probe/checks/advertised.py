"""Every advertised API and version: a harmless request gets a response that fits it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dissectors import schemas
from dissectors.schemas.codes import ApiKey
from kproxy.client.request import ClientRequest
from kproxy.probe.check import Check, CheckFailed, CheckSkipped, family
from kproxy.probe.harmless import NOT_FOR_CLIENTS, harmless
from kproxy.probe.target import BrokerAnswer, Target

_PAGE = """The broker advertises this version in ApiVersions, so clients send it. kproxy sends a harmless request, which
changes nothing. An error code in the response is an answer."""
_FIRST_PRODUCE = 3
_BATCHED = 4  # FindCoordinator has an array of keys from here on (KIP-699)
_SOURCE = "https://kafka.apache.org/protocol"


@family
def advertised() -> Iterator[Check]:
    """Three checks for each version of each API that clients may send."""
    for api in schemas.apis():
        if api.name in NOT_FOR_CLIENTS or schemas.request(api.key) is None:
            continue
        for version in api.versions:
            name = f"{api.name} v{version}"
            # It creates __consumer_offsets. Later versions also work without a key.
            writes = api.key == ApiKey.FIND_COORDINATOR and version < _BATCHED
            for number, (title, run) in enumerate(
                (
                    (f"{name} gets a response with its correlation id", _answers),
                    (f"the {name} response decodes to its last byte", _decodes),
                    (f"the {name} response has no finding", _has_no_finding),
                ),
                1,
            ):
                check_id = f"{api.name}/v{version}/{number}"
                yield Check(check_id, title, _PAGE, (_SOURCE,), partial(run, api, version), writes)


async def _answers(api: schemas.Api, version: int, target: Target) -> BrokerAnswer:
    lowest, highest = target.served.get(api.key, (0, -1))
    if not lowest <= version <= highest:
        raise CheckSkipped("not advertised")
    if api.key == ApiKey.PRODUCE and version < _FIRST_PRODUCE:
        raise CheckSkipped("Kafka 4 lists it for old versions of librdkafka, and refuses it (KIP-896)")
    async with target.connection() as connection:
        request = ClientRequest(api, version, harmless(api, version)).frame(connection.next_correlation_id())
        connection.send(request)
        return await target.receive_any(connection, request)


async def _answered(api: schemas.Api, version: int, target: Target) -> BrokerAnswer:
    try:
        return await _answers(api, version, target)
    except CheckFailed:
        raise CheckSkipped(f"{api.name}/v{version}/1 fails") from None


async def _decodes(api: schemas.Api, version: int, target: Target) -> BrokerAnswer:
    response = await _answered(api, version, target)
    message = response.message
    if message.error is None and not message.opaque and not message.trailing:
        return response
    finding = next((finding for finding in response.evidence[1].findings if finding.problem.diagnosis), None)
    if finding is not None:
        raise response.failed(f"{finding.code} {finding.name}: {finding.problem.message}")
    raise response.failed(str(message.error or message.opaque or f"{message.trailing} bytes follow its last field"))


async def _has_no_finding(api: schemas.Api, version: int, target: Target) -> None:
    try:
        response = await _decodes(api, version, target)
    except CheckFailed:
        raise CheckSkipped(f"{api.name}/v{version}/2 fails") from None
    findings = [
        finding for finding in response.evidence[1].findings if finding.severity != "info" and finding.blame != "client"
    ]
    if findings:
        raise response.failed(f"{findings[0].code} {findings[0].name}: {findings[0].problem.message}")
