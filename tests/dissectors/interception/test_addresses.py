"""Broker addresses in responses: all of them are found, and rewriting them changes nothing else."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors import schemas
from dissectors.connections.events import Direction
from dissectors.interception.addresses import AddressRewriter, BrokerAddress, locate_addresses
from dissectors.interception.interceptor import FORWARD, Replace, RequestHeader
from dissectors.messages.message import read_response
from tests.kproxy.frames import response
from tests.strategies import damaged, values

#: The versions of each API whose responses have addresses, and the field that holds them, according to KIP-4, KIP-482,
#: KIP-559, KIP-700, KIP-853, KIP-919, KIP-932 and KIP-951.
ADDRESS_FIELDS = {
    "Metadata": (range(14), "brokers"),
    "FindCoordinator": (range(7), "coordinators"),
    "DescribeCluster": (range(3), "brokers"),
    "Produce": (range(10, 14), "node_endpoints"),
    "Fetch": (range(16, 19), "node_endpoints"),
    "ShareFetch": (range(3), "node_endpoints"),
    "ShareAcknowledge": (range(3), "node_endpoints"),
    "Vote": (range(1, 3), "node_endpoints"),
    "BeginQuorumEpoch": (range(1, 2), "node_endpoints"),
    "EndQuorumEpoch": (range(1, 2), "node_endpoints"),
    "FetchSnapshot": (range(1, 2), "node_endpoints"),
}
API_VERSIONS = [(api, version) for api, (versions, _) in ADDRESS_FIELDS.items() for version in versions]
#: Controllers write ports as uint16, all others as int32.
CLIENT_APIS = set(ADDRESS_FIELDS) - {"Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot"}
HOSTS = st.sampled_from(["", "b", "b1.example.com", "h" * 127, "h" * 300, "ü"])


def key_of(api: str) -> int:
    api_entry = schemas.api_by_name(api)
    assert api_entry is not None
    return api_entry.key


def address_structs(api: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the structs in a body that hold an address."""
    field = ADDRESS_FIELDS[api][1]
    if field == "coordinators" and field not in body:
        return [body]
    return body.get(field) or []


def rewrite(frame: bytes, api: str, version: int, address: tuple[str, int]) -> bytes:
    rewriter = AddressRewriter(lambda addresses, complete: [address] * len(addresses))
    action = rewriter.on_response(frame, RequestHeader(key_of(api), version, 1))
    return action.frame if isinstance(action, Replace) else frame


def test_rewriter_wants_exactly_the_responses_that_have_addresses() -> None:
    rewriter = AddressRewriter(lambda addresses, complete: [])
    wanted_responses = {
        (api.name, version)
        for api in schemas.apis()
        for version in range(-1, api.max_version + 3)
        if rewriter.wants(Direction.RESPONSE, api.key, version)
    }
    assert wanted_responses == set(API_VERSIONS)
    assert not any(rewriter.wants(Direction.REQUEST, key_of(api), version) for api, version in API_VERSIONS)


def test_versions_newer_than_the_schemas_are_reported() -> None:
    reported: list[tuple[int, int]] = []
    rewriter = AddressRewriter(lambda addresses, complete: [], lambda *version: reported.append(version))
    assert not rewriter.wants(Direction.RESPONSE, key_of("Metadata"), 99)
    assert not rewriter.wants(Direction.RESPONSE, key_of("Heartbeat"), 99)
    assert reported == [(3, 99)]


@pytest.mark.parametrize(("api", "version"), API_VERSIONS)
def test_rewriting_changes_only_hosts_and_ports(api: str, version: int) -> None:
    shape = read_response(response(api, version, {}), key_of(api), version).layout
    assert shape is not None

    @settings(max_examples=6, database=None, deadline=None)
    @given(values(shape), st.data())
    def check_rewriting(body: dict[str, Any], data: st.DataObject) -> None:
        for node in address_structs(api, body):
            max_port = 2**31 - 1 if api in CLIENT_APIS else 2**16 - 1
            node["host"], node["port"] = data.draw(HOSTS), data.draw(st.sampled_from([max_port, 0, 9092]))
        address = data.draw(HOSTS.filter(bool)), 19092
        frame = response(api, version, body)
        expected = copy.deepcopy(body)
        for node in address_structs(api, expected):
            if node["host"] and node["port"] > 0:
                node["host"], node["port"] = address
        new_frame = rewrite(frame, api, version, address)
        assert new_frame == response(api, version, expected)
        message = read_response(new_frame, key_of(api), version)
        assert message.error is None
        assert message.body == expected

    check_rewriting()


@pytest.mark.parametrize(("api", "version"), API_VERSIONS)
def test_rewrite_never_raises_on_damaged_responses(api: str, version: int) -> None:
    shape = read_response(response(api, version, {}), key_of(api), version).layout
    assert shape is not None

    @settings(max_examples=6, database=None, deadline=None)
    @given(damaged(values(shape).map(lambda body: response(api, version, body))))
    def rewrite_frame(frame: bytes) -> None:
        rewrite(frame, api, version, ("proxy", 1))

    rewrite_frame()


def corpus_responses() -> Iterator[tuple[str, int, bytes, dict[str, Any]]]:
    """Yield responses as Kafka's own classes write them, and their JSON."""
    file = Path(__file__).parents[2] / "data" / "corpus-tame.jsonl.gz"
    with gzip.open(file, "rt") as rows:
        for row in map(json.loads, rows):
            api = row["api"].removesuffix("Response")
            if row["type"] == "response" and api in ADDRESS_FIELDS and row["version"] in ADDRESS_FIELDS[api][0]:
                yield api, row["version"], bytes.fromhex(row["frame_hex"]), row["json"]


def printed_addresses(value: Any) -> Iterator[BrokerAddress]:
    """Yield the addresses in Kafka's JSON, in order."""
    if isinstance(value, dict):
        if {"host", "port"} <= value.keys() and value.keys() & {"nodeId", "brokerId"}:
            yield BrokerAddress(value.get("nodeId", value.get("brokerId")), value["host"], value["port"])
        for inner in value.values():
            yield from printed_addresses(inner)
    elif isinstance(value, list):
        for element in value:
            yield from printed_addresses(element)


def test_all_addresses_that_kafka_prints_are_found() -> None:
    counts: dict[str, int] = {}
    for api, version, frame, body in corpus_responses():
        located = [span.address for span in locate_addresses(frame, key_of(api), version)]
        assert located == [address for address in printed_addresses(body) if address.host and address.port > 0], (
            api,
            version,
        )
        counts[api] = counts.get(api, 0) + len(located)
    assert counts.keys() == ADDRESS_FIELDS.keys()
    assert all(counts.values())


def test_locating_metadata_addresses_needs_only_the_brokers() -> None:
    frame = response("Metadata", 9, {"brokers": [{"node_id": 1, "host": "b", "port": 9092}]})
    torn = frame[: frame.index(b"\x02b") + 8]
    assert [span.address for span in locate_addresses(torn, 3, 9)] == [(1, "b", 9092)]


def test_unchanged_addresses_are_not_rewritten() -> None:
    frame = response("Metadata", 1, {"brokers": [{"node_id": 1, "host": "b", "port": 9092}]})
    header = RequestHeader(3, 1, 1)
    assert AddressRewriter(lambda addresses, complete: [None]).on_response(frame, header) is FORWARD
    assert AddressRewriter(lambda addresses, complete: [("b", 9092)]).on_response(frame, header) is FORWARD
