"""Chooses the version of a request from the versions that a broker advertises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from dissectors import schemas
from dissectors.schemas.codes import ApiKey, Error
from kproxy.client.connection import BrokerConnection, ClientTls, connect
from kproxy.client.round_trip import send_request
from kproxy.errors import FINDINGS, UserError
from kproxy.proxy.address import Address

#: API key -> lowest and highest version.
VersionRanges: TypeAlias = Mapping[int, tuple[int, int]]


async def fetch_versions(connection: BrokerConnection) -> VersionRanges:
    """Ask for the broker's versions like a Kafka client: at the newest version, then at 0 if it is unknown (KIP-511).

    Raises:
        UserError: The broker does not answer, or its answer does not decode.
    """
    api = schemas.api(ApiKey.API_VERSIONS)
    assert api is not None
    version = api.max_version
    body = await send_request(connection, api, version)
    if body["error_code"] == Error.UNSUPPORTED_VERSION and version:
        offered = {key["api_key"]: key for key in body["api_keys"]}.get(api.key)
        version = min(version, offered["max_version"]) if offered else 0
        body = await send_request(connection, api, version)
    if body["error_code"]:
        raise UserError(
            f"ApiVersions v{version} returned {schemas.error_name(body['error_code'])}: pass -v N", FINDINGS
        )
    return {key["api_key"]: (key["min_version"], key["max_version"]) for key in body["api_keys"]}


async def fetch_versions_from(address: Address, timeout_s: float, tls: ClientTls | None = None) -> VersionRanges:
    """Call `fetch_versions` on a new connection, which is closed afterwards.

    Raises:
        UserError: As `fetch_versions`, and if the broker cannot be reached.
    """
    connection = await connect(address, timeout_s, tls)
    try:
        return await fetch_versions(connection)
    finally:
        connection.close()


def newest_version(api: schemas.Api, served: VersionRanges) -> int:
    """Return the newest version of an API that both the broker and kproxy know.

    Raises:
        UserError: The broker does not advertise the API, or only versions that kproxy does not know.
    """
    if api.key not in served:
        raise UserError(f"the broker does not advertise {api.name}: pass -v N to send it nevertheless", FINDINGS)
    lowest, highest = served[api.key]
    version = min(highest, api.max_version)
    if version < max(lowest, api.min_version):
        raise UserError(
            f"the broker serves {api.name} v{lowest} to v{highest}, kproxy knows v{api.min_version} to "
            f"v{api.max_version}: pass -v N to send one of these nevertheless",
            FINDINGS,
        )
    return version
