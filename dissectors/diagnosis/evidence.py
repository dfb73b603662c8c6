"""Evidence: how many bits a value costs where a field of that name and type is read, so little if it reads well.

A reading of a whole frame costs the sum, and the likeliest reading is the cheapest: the bytes are the same for all.
Values follow what Kafka's fields hold: codes, ports, counts, names; what a shift by a byte or two gives is dear.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from dissectors.layout import Field, Layout
from dissectors.plausible import error_codes

Cost = Callable[[Any], float]

#: Fields of headers that any number may stand in.
FREE = frozenset({"correlation_id", "request_api_key", "request_api_version"})

#: What a value costs that can hardly be one: an unknown error code, a port of 151552, a control character.
WRONG = 24.0

#: What a word costs that the request or the connection has named.
KNOWN_WORD = 4.0

_GAMMA = tuple(2.0 + 1.7 * bits for bits in range(65))  # by bits of the number
_WIDE = tuple(3.0 + 1.2 * bits for bits in range(65))
_ZERO = 1.0

#: What a byte costs of which nothing is known: about as much as one of a name, or long strings would look better.
BLOB_BYTE = 5.5

#: How the strings of some fields look mostly.
_HOST = re.compile(rb"localhost|[\w-]+(\.[\w-]+)+").fullmatch
_MEMBER = re.compile(rb".*-[0-9a-f-]{12,36}").fullmatch
_TYPICAL: dict[str, Callable[[bytes], object]] = {
    "host": _HOST,
    "host_name": _HOST,
    "client_host": re.compile(rb"/[0-9a-f.:]+").fullmatch,
    "member_id": _MEMBER,
    "leader": _MEMBER,
    "principal": re.compile(rb"User:.+").fullmatch,
    "cluster_id": re.compile(rb"[\w-]{22}").fullmatch,
}

#: Of a longer string its beginning stands for all of it.
LONG = 512

#: What some fields hold mostly.
_VOCABULARY = {
    "protocol_type": {b"consumer", b"connect", b"share", b"sr"},
    "group_type": {b"classic", b"consumer", b"share", b"streams"},
    "protocol_name": {b"range", b"roundrobin", b"sticky", b"cooperative-sticky", b"RoundRobinAssigner", b"default"},
    "group_state": {b"Stable", b"Empty", b"Dead", b"PreparingRebalance", b"CompletingRebalance", b"Assigning"},
    "assignor_name": {b"uniform", b"range"},
    "mechanism": {b"PLAIN", b"SCRAM-SHA-256", b"SCRAM-SHA-512", b"GSSAPI", b"OAUTHBEARER"},
}
_VOCABULARY["protocol_data"] = _VOCABULARY["name"] = _VOCABULARY["protocol_name"]
_VOCABULARY["type"] = _VOCABULARY["group_type"]

_NAME = re.compile(rb"[A-Za-z0-9._-]+").fullmatch
_PLAIN = re.compile(rb"[\x20-\x7e]*").fullmatch
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]").findall

#: Capacities that are defaults: the greatest int32, and Kafka's 50 MiB and 100 MiB.
_CAPACITIES = ((1 << 31) - 1, 52_428_800, 104_857_600)

#: Milliseconds since the epoch of the years 2001 and 2100.
_TIMES = range(978_307_200_000, 4_102_444_800_000)


def error_code(value: int) -> float:
    """0 mostly, else one that Kafka knows."""
    if value == 0:
        return 0.5
    return 9.0 if value in error_codes() else 16 + WRONG


def boolean(value: int) -> float:
    """0 or 1."""
    return 1.0 if value < 2 else WRONG


def count(value: int) -> float:
    """Elements of an array, bytes of a string."""
    return _ZERO + 1 if value == 0 else _GAMMA[value.bit_length()]


def port(value: int) -> float:
    """A TCP port."""
    return 12.0 if 0 < value < 65536 else 8.0 if value in (0, -1) else 32 + WRONG


def throttle(value: int) -> float:
    """Milliseconds, mostly 0."""
    if value > 0:
        return 14.0 if value <= MINUTE else _GAMMA[value.bit_length()] + 3
    return 0.5 if value == 0 else 32 + WRONG


def small(value: int) -> float:
    """An id, epoch or index: small, or -1 for none."""
    if value > 0:
        return _GAMMA[value.bit_length()]
    return _ZERO if value == 0 else 4.0 if value == -1 else 8.0 if value == -2 else 18 + _GAMMA[(-value).bit_length()]


def wide(value: int) -> float:
    """An offset, a producer id."""
    if value > 0:
        return _WIDE[value.bit_length()]
    return _ZERO if value == 0 else 4.0 if value == -1 else 8.0 if value > -6 else 18 + _WIDE[(-value).bit_length()]


def time(value: int) -> float:
    """Milliseconds since the epoch, or none."""
    if value in _TIMES:
        return 36.0
    return 4.0 if value in (0, -1) else 8.0 + wide(value)


def duration(value: int) -> float:
    """Milliseconds that somebody set: mostly round."""
    return 12.0 if value > 0 and value % 100 == 0 and value < 1 << 28 else 3.0 + small(value)


def capacity(value: int) -> float:
    """Bytes that somebody set: mostly a round number of binary digits, or the greatest there is."""
    return 12.0 if value > 0 and value & (value - 1) == 0 else 14.0 if value in _CAPACITIES else 1.0 + small(value)


def uuid(value: bytes) -> float:
    """Random of version 4, or one of the reserved, which are nearly zero."""
    if not any(value[:15]):
        return 4.0
    return 92.0 if value[6] >> 4 == 4 and value[8] >> 6 == 2 else 100.0


def double(value: float) -> float:
    """A quota."""
    return 4.0 if value == 0 else 44.0 if 1e-9 < abs(value) < 1e15 else 64 + WRONG


def operations(value: int) -> float:
    """Bits of the operations that a principal may do, mostly not asked for."""
    return 1.0 if value == -(1 << 31) else 12.0 if 0 < value < 1 << 14 else 10.0 if value == 0 else 44.0 + WRONG


def integer(field: Field) -> Cost:
    """What integers of a field cost."""
    name = field.name
    if field.type == "bool":
        return boolean
    if field.type == "float64":
        return double
    if field.type == "uuid":
        return uuid
    if name.endswith("error_code") and field.type == "int16":
        return error_code
    if name == "throttle_time_ms":
        return throttle
    if name == "port" and field.type in ("int32", "uint16", "int16"):
        return port
    if name.endswith("authorized_operations"):
        return operations
    cost = wide if field.type == "int64" else small
    if field.type == "int64" and ("timestamp" in name or name.endswith("time_ms")):
        cost = time
    elif name.endswith("_ms"):
        cost = duration
    elif name.endswith("max_bytes") or name == "min_bytes":
        cost = capacity
    default = field.default
    if isinstance(default, int) and not isinstance(default, bool) and default not in (0, -1):
        return lambda value: 3.0 if value == default else cost(value)
    return cost


def text(field: Field) -> Cost:
    """What the bytes of a string cost, its length left out."""
    names = field.entity in ("topicName", "groupId", "transactionalId") or field.name in ("host", "name", "topic")
    topic = field.entity == "topicName"
    sentence = "message" in field.name or "reason" in field.name
    words = _VOCABULARY.get(field.name, set())
    typical = _TYPICAL.get(field.name)

    def short(raw: bytes) -> float:
        size = len(raw)
        if size == 0:
            return 7.0 if names else 1.0
        if raw in words:
            return 1.0
        if typical is not None and typical(raw):
            return 4.0 * size
        if _NAME(raw):
            return 4.8 * size + 6 * sentence
        if _PLAIN(raw):
            return 5.2 * size if sentence else 6.0 * size + (WRONG if topic else 6 * (b" " in raw))
        return 8 * size + WRONG * (1 + min(len(_CONTROLS(raw)), 4)) + (0 if _is_text(raw) else WRONG)

    def cost(raw: bytes) -> float:
        size = len(raw)
        return short(raw) if size <= LONG else short(raw[:LONG]) * size / LONG

    return cost


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def blob(records: bool, data: bytes, pos: int, size: int) -> float:
    """What the bytes of a bytes or records field cost, their length left out."""
    if records and size >= 17:
        # The first batch says how long it is; only the last may be cut off.
        batch = 12 + int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
        right = data[pos + 16] < 3 and data[pos] < 0x40 and batch > 12
        return BLOB_BYTE * size + (2 * WRONG if not right else -20 if batch == size else -8)
    return BLOB_BYTE * size


#: What a string, bytes or array field that is null costs; those that may not be null cannot be read as null.
NULL = 3.0
EMPTY_TAGS = 0.4
KNOWN_TAG = 5.0
UNKNOWN_TAG = 24.0

#: Bits of evidence are not independent of each other: so much of each counts when they become a confidence.
TEMPER = 0.5

MINUTE = 60_000

#: What no integer of an ordinary frame costs, and what none is less than: Kafka's special values end at -6.
EXTREME = 45.0
LEAST = -6


def ordinary(layout: Layout, values: Mapping[str, Any]) -> bool:
    """Whether the integers among values are such as Kafka's fields hold."""
    for one in layout.fields:
        value = values.get(one.name)
        if one.struct is not None and value is not None:
            if not all(ordinary(one.struct, each) for each in (value if one.array else (value,))):
                return False
        elif isinstance(value, int) and one.name not in FREE:
            cost = integer(one)
            if cost(value) > EXTREME or (value < LEAST and cost is not operations):
                return False
    return True
