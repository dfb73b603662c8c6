"""Frames with payloads of group protocols, right and broken: consumers, Kafka Connect and Kafka Streams."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from copy import deepcopy
from random import Random
from typing import Any

from tests.independent import breakages
from tests.independent.breakages import Frame, Unfit
from tests.independent.definitions import Member, Struct, Values, definitions, message, shape, versions, write
from tests.independent.frames import Case, Valid, frame_of, written
from tests.independent.values import Source

#: Kafka Connect's messages, which Kafka has only as code (ConnectProtocol, IncrementalCooperativeConnectProtocol).
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
definitions().update({each["name"]: each for each in _CONNECT})

#: By carrier: message, the path of the payload's struct and field, and whether it is metadata or an assignment.
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


def version_missing(frame: Frame) -> None:
    if not frame.header.members:
        raise Unfit
    frame.header.members.clear()


def version_wide(frame: Frame) -> None:
    if not frame.header.members:
        raise Unfit
    frame.header.members[0].kind = "int32"


def user_data_missing(frame: Frame) -> None:
    members = [member for member in frame.body.members if member.name == "user_data"]
    if not members:
        raise Unfit
    frame.body.members.remove(members[0])


_BREAKAGES: tuple[Callable[[Frame], None], ...] = (
    version_missing, version_missing, version_wide, user_data_missing, user_data_missing, breakages.other_version,
    breakages.other_version, breakages.other_version, breakages.missing, breakages.missing, breakages.from_version,
    breakages.width("strings"), breakages.width("arrays"), breakages.width("bytes"),
    breakages.other_encoding("strings"), breakages.other_encoding("arrays"), breakages.other_encoding("all"),
    breakages.int_width, breakages.duplicated,
)  # fmt: skip


def _payload(name: str, random: Random) -> Frame:
    """A right payload with realistic values."""
    version = random.choice(versions(name)[1:] if name == "SubscriptionInfoData" else versions(name))
    prefixed = name != "SubscriptionInfoData"
    header = Struct([Member("version", "int16")] if prefixed else [])
    source = Source(random)
    body = message(name, version)
    values = {"header": {"version": version}, "body": source.struct(body)}
    made: Values = values["body"]
    if "user_data" in made and random.random() < 0.7:
        made["user_data"] = None
    if "owned_partitions" in made or "assigned_partitions" in made:
        for topic in made.get("owned_partitions") or made.get("assigned_partitions") or ():
            topic["partitions"] = sorted(random.sample(range(12), random.randint(1, 4)))
    if "generation_id" in made:
        made["generation_id"] = random.choice((-1, 3, 17))
    if name.startswith("Connect"):
        made["config_offset"] = random.randint(1, 400)
        for field in ("url", "leader_url"):
            if field in made:
                made[field] = f"http://worker-{random.randint(1, 5)}:8083/"
        if "leader" in made:
            made |= {"leader": f"connect-1-{random.getrandbits(64):016x}", "error": 0}
        if "delay" in made:
            made["delay"] = random.choice((0, 0, 300_000))
    if name == "SubscriptionInfoData":
        made |= {"version": version, "latest_supported_version": 11}
        made["user_end_point"] = b"10.20.1.17:8080"
    return Frame(name, version, 0, header, body, values, random)


def _wrapped(kind: str, data: bytes) -> bytes:
    """User data of Kafka Streams in the subscription that contains it."""
    if kind != "streams":
        return data
    body = message("ConsumerProtocolSubscription", 1)
    return b"\x00\x01" + write(body, {"topics": ["orders"], "user_data": data, "owned_partitions": []})


def _bytes(frame: Frame) -> bytes:
    return write(frame.header, frame.values["header"]) + write(frame.body, frame.values["body"])


def cases(each: int, seed: int) -> Iterator[Case]:
    """So many cases for each kind of payload and each message that carries it."""
    for kind, names in _PAYLOADS.items():
        for name, key, path, field, what in _CARRIERS:
            if what not in names:
                continue
            random = Random(f"{seed} {kind} {name} {field}")
            found = tries = 0
            while found < each and tries < 20 * each:
                tries += 1
                version = random.choice(versions(name))
                if case := _case(kind, name, key, version, (path, field), names[what], random):
                    found += 1
                    yield case


def _case(
    kind: str, name: str, key: int, version: int, where: tuple[tuple[str, ...], str], payload: str, random: Random
) -> Case | None:
    right = _payload(payload, random)
    wrong = Frame(
        right.name, right.version, 0, deepcopy(right.header), deepcopy(right.body), deepcopy(right.values), random
    )
    try:
        random.choice(_BREAKAGES)(wrong)
        pieces = _bytes(right), _bytes(wrong)
    except (Unfit, OverflowError, struct.error, TypeError, KeyError, AttributeError):
        return None
    if pieces[0] == pieces[1]:
        return None
    valid = _carrier(kind, name, key, version, random)
    frames = []
    for piece in pieces:
        values = deepcopy(valid.values)
        _put(values["body"], *where, _wrapped(kind, piece))
        frames.append(values)
    valid.values = frames[0]
    made = [written(frame_of(Valid(name, key, version, valid.header_version, frame, ""), random)) for frame in frames]
    case = Case(f"embedded payload: {kind}", valid, made[0], made[1], frames[0])
    case.payload, case.broken_payload = pieces
    case.payload_name, case.payload_values, case.shape = payload, wrong.values, shape(wrong.body)
    return case


def _put(body: Values, path: tuple[str, ...], field: str, data: bytes) -> None:
    if not path:
        body[field] = data
        return
    for each in body[path[0]]:
        _put(each, path[1:], field, data)


def _carrier(kind: str, name: str, key: int, version: int, random: Random) -> Valid:
    source = Source(random)
    tree = message(name, version)
    body = source.struct(tree)
    header: Values = {"correlation_id": random.randint(1, 300)}
    if name.endswith("Request"):
        header |= {"request_api_key": key, "request_api_version": version, "client_id": "consumer-1"}
    _complete(body, kind, random)
    return Valid(name, key, version, _header_version(name, version), {"header": header, "body": body}, kind)


def _complete(body: Values, kind: str, random: Random) -> None:
    """One element in each array, the protocol's names, no error, and no other payload than the one that is put in."""
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
            _complete(value[0], kind, random)


def _header_version(name: str, version: int) -> int:
    flexible = message(name, version).buffers
    return 1 + flexible if name.endswith("Request") else flexible
