"""ApiVersions, and versions of APIs that the broker does not serve."""

from __future__ import annotations

from collections import Counter

from dissectors import schemas
from dissectors.schemas.codes import ApiKey, Error
from kproxy.probe.check import CheckFailed, CheckSkipped, check
from kproxy.probe.target import BrokerResponse, Target

_FUTURE = 127  # no release has it, and no gateway should wait for it

_FIRST_VERSION_WITH_LIST = 3  # brokers with ApiVersions v3 list their versions in that response


@check("versions/future-api-versions", "KIP-511", "core/src/main/scala/kafka/server/KafkaApis.scala")
async def check_future_api_versions(target: Target) -> None:
    """A version of ApiVersions that is too new returns version 0 with UNSUPPORTED_VERSION.

    New clients begin with their newest version. A broker that closes the connection instead makes them fail, or
    reconnect after a delay with an older version.
    """
    async with target.connection() as connection:
        request = bytearray(target.frame(connection, "ApiVersions", 3))  # a future version would begin like this
        request[6:8] = _FUTURE.to_bytes(2, "big")
        connection.send(bytes(request))
        response = await target.receive_any(connection, bytes(request))
        if int.from_bytes(response.response[8:10], "big") != Error.UNSUPPORTED_VERSION:
            raise response.failure(f"the response to ApiVersions v{_FUTURE} does not begin with error 35")
        if response.message.error or response.message.opaque:
            raise response.failure(f"the response to ApiVersions v{_FUTURE} is not one of version 0")
        if not response.body["api_keys"] and target.version("ApiVersions") >= _FIRST_VERSION_WITH_LIST:
            raise response.failure(f"the response to ApiVersions v{_FUTURE} does not list any version")


@check("versions/ranges", "https://kafka.apache.org/protocol")
async def check_ranges(target: Target) -> None:
    """Every API is listed once, with a range that is not empty, and ApiVersions is among them.

    Clients choose their versions from this list.
    """
    response = await _send_api_versions(target, target.version("ApiVersions"))
    listed = response.body["api_keys"]
    for api_key in listed:
        if not 0 <= api_key["min_version"] <= api_key["max_version"]:
            name = _api_name(api_key["api_key"])
            raise response.failure(f"{name} is listed from v{api_key['min_version']} to v{api_key['max_version']}")
    [(key, count)] = Counter(key["api_key"] for key in listed).most_common(1) or [(0, 0)]
    if count > 1:
        raise response.failure(f"{_api_name(key)} is listed {count} times")
    if ApiKey.API_VERSIONS not in {key["api_key"] for key in listed}:
        raise response.failure("ApiVersions does not list itself")


@check("versions/same-in-every-version", "KIP-35")
async def check_same_in_every_version(target: Target) -> None:
    """All versions of ApiVersions list the same ranges.

    A gateway that answers an old version from a fixed table promises what it does not serve.
    """
    newest = target.version("ApiVersions")
    lists = {}
    for version in range(newest + 1):
        response = await _send_api_versions(target, version)
        lists[version] = {key["api_key"]: (key["min_version"], key["max_version"]) for key in response.body["api_keys"]}
        if lists[version] != lists[0]:
            key = min(key for key in lists[0] | lists[version] if lists[0].get(key) != lists[version].get(key))
            raise response.failure(
                f"v0 lists {_api_name(key)} as {_range_text(lists[0].get(key))}, v{version} as "
                f"{_range_text(lists[version].get(key))}"
            )


@check("versions/above-the-range", "clients/src/main/java/org/apache/kafka/common/requests/RequestContext.java")
async def check_above_the_range(target: Target) -> None:
    """A version above the advertised range is refused: the connection is closed, or the response is an error.

    A broker that reads it as another version answers with a layout that the client does not expect.
    """
    version = target.served.get(ApiKey.METADATA, (0, -1))[1] + 1
    if not version:
        raise CheckSkipped("the broker does not serve Metadata")
    await _check_rejected(target, ApiKey.METADATA, version)


@check("versions/unknown-api", "clients/src/main/java/org/apache/kafka/common/requests/RequestHeader.java")
async def check_unknown_api(target: Target) -> None:
    """An unknown API key is refused.

    If it makes the broker fail, anyone who connects can stop the broker.
    """
    await _check_rejected(target, 9999, 0)


async def _check_rejected(target: Target, key: int, version: int) -> None:
    async with target.connection() as connection:
        request = bytearray(target.frame(connection, "ApiVersions", 0))
        request[4:8] = key.to_bytes(2, "big") + version.to_bytes(2, "big")
        connection.send(bytes(request))
        request_name = f"{_api_name(key)} v{version}"
        response = await target.receive_refusal(connection, request_name)
    if response is not None and int.from_bytes(response[8:10], "big") != Error.UNSUPPORTED_VERSION:
        raise CheckFailed(f"{request_name} is answered with {len(response)} bytes: {response[:16].hex(' ')}")
    await target.expect_still_serving()


async def _send_api_versions(target: Target, version: int) -> BrokerResponse:
    async with target.connection() as connection:
        values = {"client_software_name": "kproxy", "client_software_version": "1"} if version > 2 else {}
        return await target.request(connection, "ApiVersions", version, **values)


def _api_name(key: int) -> str:
    api = schemas.api(key)
    return api.name if api else f"API {key}"


def _range_text(versions: tuple[int, int] | None) -> str:
    return f"v{versions[0]} to v{versions[1]}" if versions else "not served"
