"""Frames with payloads of group protocols, correct and broken: consumers, Kafka Connect and Kafka Streams."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

from tests.independent import breakages
from tests.independent.breakages import Frame, Unfit
from tests.independent.definitions import (
    Member,
    Struct,
    Values,
    definitions,
    message,
    shape,
    shared_message,
    versions,
    write,
)
from tests.independent.frames import Case, ValidFrame, encode_frame, new_frame
from tests.independent.values import Source

#: Kafka Connect's messages, which Kafka defines only in code (ConnectProtocol, IncrementalCooperativeConnectProtocol).
_TASKS = [
    {"name": "Connector", "type": "string", "versions": "0+"},
    {"name": "Tasks", "type": "[]int32", "versions": "0+"},
]
_CONNECT: list[dict[str, Any]] = [
    {"name": "ConnectWorkerState", "versions": "0-2", "flexible": "none", "fields": [
        {"name": "Url", "type": "string", "versions": "0+"},
        {"name": "ConfigOffset", "type": "int64", "versions": "0+"},
        {"name": "Allocation", "type": "bytes", "versions": "1+", "nullableVersions": "1+"}]},
    {"name": "ConnectAssignment", "versions": "0-2", "flexible": "none", "fields": [
        {"name": "Error", "type": "int16", "versions": "0+"}, {"name": "Leader", "type": "string", "versions": "0+"},
        {"name": "LeaderUrl", "type": "string", "versions": "0+"},
        {"name": "ConfigOffset", "type": "int64", "versions": "0+"},
        {"name": "Assignment", "type": "[]Task", "versions": "0+", "nullableVersions": "1+", "fields": _TASKS},
        {"name": "Revoked", "type": "[]Task", "versions": "1+", "nullableVersions": "1+", "fields": _TASKS},
        {"name": "Delay", "type": "int32", "versions": "1+"}]},
]  # fmt: skip
definitions().update({definition["name"]: definition for definition in _CONNECT})

#: Messages with payloads: name, API key, the payload's struct and field, and whether it is metadata or an assignment.
_CARRIERS = (
    ("JoinGroupRequest", 11, ("protocols",), "metadata", "metadata"),
    ("JoinGroupResponse", 11, ("members",), "metadata", "metadata"),
    ("SyncGroupRequest", 14, ("assignments",), "assignment", "assignment"),
    ("SyncGroupResponse", 14, (), "assignment", "assignment"),
    ("DescribeGroupsResponse", 15, ("groups", "members"), "member_metadata", "metadata"),
    ("DescribeGroupsResponse", 15, ("groups", "members"), "member_assignment", "assignment"),
)
_PAYLOADS = {
    "consumer": {"metadata": "ConsumerProtocolSubscription", "assignment": "ConsumerProtocolAssignment"},
    "connect": {"metadata": "ConnectWorkerState", "assignment": "ConnectAssignment"},
    "streams": {"metadata": "SubscriptionInfoData"},
}
_ASSIGNORS = {
    "consumer": ("range", "cooperative-sticky"),
    "connect": ("sessioned", "compatible"),
    "streams": ("stream",),
}


def drop_version(frame: Frame) -> None:
    if not frame.header.members:
        raise Unfit
    frame.header.members.clear()


def widen_version(frame: Frame) -> None:
    if not frame.header.members:
        raise Unfit
    frame.header.members[0].kind = "int32"


def drop_user_data(frame: Frame) -> None:
    members = [member for member in frame.body.members if member.name == "user_data"]
    if not members:
        raise Unfit
    frame.body.members.remove(members[0])


_BREAKAGES: tuple[Callable[[Frame], None], ...] = (
    drop_version,
    drop_version,
    widen_version,
    drop_user_data,
    drop_user_data,
    breakages.other_version,
    breakages.other_version,
    breakages.other_version,
    breakages.drop_field,
    breakages.drop_field,
    breakages.add_field_of_version,
    breakages.other_width("strings"),
    breakages.other_width("arrays"),
    breakages.other_width("bytes"),
    breakages.other_encoding("strings"),
    breakages.other_encoding("arrays"),
    breakages.other_encoding("all"),
    breakages.change_int_width,
    breakages.duplicate_field,
)


def _valid_payload(name: str, random: Random) -> Frame:
    """Return a correct payload with realistic values."""
    version = random.choice(versions(name)[1:] if name == "SubscriptionInfoData" else versions(name))
    prefixed = name != "SubscriptionInfoData"
    header = Struct([Member("version", "int16")] if prefixed else [])
    source = Source(random)
    body = message(name, version)
    values = {"header": {"version": version}, "body": source.struct(body)}
    fields: Values = values["body"]
    if "user_data" in fields and random.random() < 0.7:
        fields["user_data"] = None
    if "owned_partitions" in fields or "assigned_partitions" in fields:
        for topic in fields.get("owned_partitions") or fields.get("assigned_partitions") or ():
            topic["partitions"] = sorted(random.sample(range(12), random.randint(1, 4)))
    if "generation_id" in fields:
        fields["generation_id"] = random.choice((-1, 3, 17))
    if name.startswith("Connect"):
        fields["config_offset"] = random.randint(1, 400)
        for field in ("url", "leader_url"):
            if field in fields:
                fields[field] = f"http://worker-{random.randint(1, 5)}:8083/"
        if "leader" in fields:
            fields |= {"leader": f"connect-1-{random.getrandbits(64):016x}", "error": 0}
        if "delay" in fields:
            fields["delay"] = random.choice((0, 0, 300_000))
    if name == "SubscriptionInfoData":
        fields |= {"version": version, "latest_supported_version": 11}
        fields["user_end_point"] = b"10.20.1.17:8080"
    return Frame(name, version, 0, header, body, values, random)


def _wrap_payload(kind: str, data: bytes) -> bytes:
    """Return a payload; user data of Kafka Streams is wrapped in a subscription."""
    if kind != "streams":
        return data
    body = message("ConsumerProtocolSubscription", 1)
    return b"\x00\x01" + write(body, {"topics": ["orders"], "user_data": data, "owned_partitions": []})


def _payload_bytes(frame: Frame) -> bytes:
    return write(frame.header, frame.values["header"]) + write(frame.body, frame.values["body"])


def cases(cases_per_carrier: int, seed: int) -> Iterator[Case]:
    """Yield `cases_per_carrier` cases for each kind of payload and each message that carries it."""
    for kind, names in _PAYLOADS.items():
        for name, key, path, field, payload_kind in _CARRIERS:
            if payload_kind not in names:
                continue
            random = Random(f"{seed} {kind} {name} {field}")
            case_count = attempts = 0
            while case_count < cases_per_carrier and attempts < 20 * cases_per_carrier:
                attempts += 1
                version = random.choice(versions(name))
                if case := _make_case(kind, name, key, version, (path, field), names[payload_kind], random):
                    case_count += 1
                    yield case


def _make_case(
    kind: str,
    name: str,
    key: int,
    version: int,
    payload_location: tuple[tuple[str, ...], str],
    payload: str,
    random: Random,
) -> Case | None:
    right_payload = _valid_payload(payload, random)
    broken_payload = Frame(
        right_payload.name,
        right_payload.version,
        0,
        deepcopy(right_payload.header),
        deepcopy(right_payload.body),
        deepcopy(right_payload.values),
        random,
    )
    try:
        random.choice(_BREAKAGES)(broken_payload)
        payload_pair = _payload_bytes(right_payload), _payload_bytes(broken_payload)
    except (Unfit, OverflowError, struct.error, TypeError, KeyError, AttributeError):
        return None
    if payload_pair[0] == payload_pair[1]:
        return None
    valid = _carrier(kind, name, key, version, random)
    frames = []
    for payload_bytes in payload_pair:
        values = deepcopy(valid.values)
        _put_payload(values["body"], *payload_location, _wrap_payload(kind, payload_bytes))
        frames.append(values)
    valid.values = frames[0]
    frame_pair = [
        encode_frame(new_frame(ValidFrame(name, key, version, valid.header_version, frame, ""), random))
        for frame in frames
    ]
    case = Case(f"embedded payload: {kind}", valid, frame_pair[0], frame_pair[1], frames[0])
    case.payload, case.broken_payload = payload_pair
    case.payload_name, case.payload_values, case.shape = payload, broken_payload.values, shape(broken_payload.body)
    return case


def _put_payload(body: Values, path: tuple[str, ...], field: str, data: bytes) -> None:
    if not path:
        body[field] = data
        return
    for element in body[path[0]]:
        _put_payload(element, path[1:], field, data)


def _carrier(kind: str, name: str, key: int, version: int, random: Random) -> ValidFrame:
    source = Source(random)
    tree = shared_message(name, version)
    body = source.struct(tree)
    header: Values = {"correlation_id": random.randint(1, 300)}
    if name.endswith("Request"):
        header |= {"request_api_key": key, "request_api_version": version, "client_id": "consumer-1"}
    _simplify(body, kind, random)
    return ValidFrame(name, key, version, _header_version(name, version), {"header": header, "body": body}, kind)


def _simplify(body: Values, kind: str, random: Random) -> None:
    """Keep one element of each array, set the protocol's names, and clear errors and all payloads."""
    for name, value in body.items():
        if name == "protocol_type" and value is not None:
            body[name] = "consumer" if kind == "streams" else kind
        elif name in ("protocol_name", "protocol_data") or (name == "name" and "metadata" in body):
            body[name] = random.choice(_ASSIGNORS[kind])
        elif name == "error_code":
            body[name] = 0
        elif isinstance(value, bytes):
            body[name] = b""
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            body[name] = value[:1]
            _simplify(value[0], kind, random)


def _header_version(name: str, version: int) -> int:
    flexible = shared_message(name, version).buffers
    return 1 + flexible if name.endswith("Request") else flexible
