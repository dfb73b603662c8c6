"""Fetches the brokers of a cluster."""

from __future__ import annotations

from kproxy.client.connection import BrokerConnection
from kproxy.client.request import api_of
from kproxy.client.round_trip import send_request
from kproxy.client.versions import fetch_versions, newest_version
from kproxy.proxy.address import TcpAddress


async def fetch_brokers(connection: BrokerConnection) -> dict[int, TcpAddress]:
    """Return the brokers by node id, from Metadata.

    Raises:
        UserError: The broker does not answer, or its answers do not decode.
    """
    api = api_of("Metadata")
    body = await send_request(connection, api, newest_version(api, await fetch_versions(connection)), topics=[])
    return {broker["node_id"]: TcpAddress(broker["host"], broker["port"]) for broker in body["brokers"]}
