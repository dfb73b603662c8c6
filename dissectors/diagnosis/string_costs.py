"""Costs of strings, in bits, by how readable the bytes are and whether they suit the field.

A string that suits its field saves only a few bits, because most fields may hold any name.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from dissectors.diagnosis.integer_costs import WRONG_COST
from dissectors.wire.layout import Field

#: Only the beginning of longer strings is evaluated.
MAX_EVALUATED_BYTES = 512

#: The cost of one of Kafka's words, in a field for it and in other fields.
_EXPECTED_WORD_COST = 3.0
_UNEXPECTED_WORD_COST = 14.0

#: The cost of a string outside the complete set of values of its field, and outside a set of usual values.
_OUTSIDE_SET_COST = 8.0
_UNUSUAL_COST = 3.0

_GROUP_STATES = {
    b"Stable", b"Empty", b"Dead", b"PreparingRebalance", b"CompletingRebalance", b"Assigning", b"Reconciling",
    b"NotReady", b"Unknown",
}  # fmt: skip
_GROUP_TYPES = {b"classic", b"consumer", b"share", b"streams"}
_TRANSACTION_STATES = {
    b"Empty", b"Ongoing", b"PrepareCommit", b"PrepareAbort", b"CompleteCommit", b"CompleteAbort", b"Dead",
    b"PrepareEpochFence",
}  # fmt: skip
_GROUP_PROTOCOLS = {
    b"range",
    b"roundrobin",
    b"sticky",
    b"cooperative-sticky",
    b"RoundRobinAssigner",
    b"default",
    b"compatible",
}
_MECHANISMS = {b"PLAIN", b"SCRAM-SHA-256", b"SCRAM-SHA-512", b"GSSAPI", b"OAUTHBEARER"}

#: All values that some fields can have, and the usual values of others.
_COMPLETE_SETS = {
    "group_state": _GROUP_STATES,
    "states_filter": _GROUP_STATES,
    "group_type": _GROUP_TYPES,
    "types_filter": _GROUP_TYPES,
    "transaction_state": _TRANSACTION_STATES,
    "state_filters": _TRANSACTION_STATES,
    "unknown_state_filters": set[bytes](),
    "mechanism": _MECHANISMS,
    "mechanisms": _MECHANISMS,
    "principal_type": {b"User"},
    "owner_principal_type": {b"User"},
    "token_requester_principal_type": {b"User"},
    "entity_type": {b"user", b"client-id", b"ip"},
    "assignor_name": {b"uniform", b"range", b"simple", b"sticky"},
}
_USUAL_SETS = {
    "protocol_type": {b"consumer", b"connect", b"share", b"sr"},
    "protocol_name": _GROUP_PROTOCOLS,
    "protocol_data": _GROUP_PROTOCOLS,
    "server_assignor": {b"uniform", b"range"},
    "listener": {b"PLAINTEXT", b"SSL", b"SASL_PLAINTEXT", b"SASL_SSL", b"CONTROLLER", b"INTERNAL", b"EXTERNAL"},
}
_WORDS = frozenset(word for words in (*_COMPLETE_SETS.values(), *_USUAL_SETS.values()) for word in words)

_HOST = re.compile(rb"localhost|[\w-]+(\.[\w-]+)+|\*").fullmatch
_UUID_TEXT = rb"(?=.*[A-Z])(?=.*[a-z])[\w-]{22}"  # a uuid in Kafka's text form
_MEMBER_ID = re.compile(
    rb"[\x20-\x7e]*-([0-9a-f]{16,32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12})|" + _UUID_TEXT
).fullmatch
#: Default client ids of common clients. The group ids of console consumers begin similarly but are excluded.
_CLIENT_ID = re.compile(
    rb"rdkafka|sarama|kgo|kafkajs|(kafka-python|aiokafka)[\w.-]*"
    rb"|(?!console-consumer-\d)([\w.-]*-)?(producer|consumer|adminclient|admin)(-client)?(-[\w.-]*\d+)?"
).fullmatch
_PRINCIPAL = re.compile(rb"\w+:[\x21-\x7e]+").fullmatch
_ADDRESS = re.compile(rb"/[0-9a-f.:]+").fullmatch
_RELEASE = re.compile(rb"v?\d+[.\d][\w.+-]*").fullmatch
_NAME_WITH_LETTER = re.compile(rb"[\x21-\x7e]*[A-Za-z_][\x21-\x7e]*").fullmatch
_PATH = re.compile(rb"/[\x20-\x7e]+").fullmatch
_SENTENCE = re.compile(rb"[A-Z][\x20-\x7e]* [\x20-\x7e]*").fullmatch

_Matcher = Callable[[bytes], object]

#: Patterns for the strings of some fields: the bonus of a match, and the cost of a mismatch.
_PATTERNS: dict[str, tuple[_Matcher, float, float]] = {
    **dict.fromkeys(("host", "host_name"), (_HOST, 4.0, 2.0)),
    "host_filter": (_HOST, 4.0, 4.0),
    **dict.fromkeys(("member_id", "leader", "member_ids"), (_MEMBER_ID, 6.0, 4.0)),
    **dict.fromkeys(("principal", "principal_filter"), (_PRINCIPAL, 6.0, 6.0)),
    **dict.fromkeys(("client_host", "client_host_address"), (_ADDRESS, 6.0, 8.0)),
    **dict.fromkeys(("log_dir", "path"), (_PATH, 4.0, 8.0)),
    "cluster_id": (re.compile(_UUID_TEXT).fullmatch, 6.0, 4.0),
    "client_id": (_CLIENT_ID, 5.0, 0.0),
    "client_software_version": (_RELEASE, 4.0, 6.0),
    **dict.fromkeys(
        ("client_software_name", "name", "topic", "topic_name", "group_id", "transactional_id"),
        (_NAME_WITH_LETTER, 0.0, 6.0),
    ),
    **dict.fromkeys(("error_message", "acknowledge_error_message", "status_detail"), (_SENTENCE, 4.0, 4.0)),
}

#: Fields with arbitrary values that are nevertheless never member ids.
_NEVER_A_MEMBER_ID = frozenset({"group_id", "transactional_id", "topic", "name", "topic_name", "rack", "rack_id"})

_NAME = re.compile(rb"[A-Za-z0-9._-]+").fullmatch
_PRINTABLE = re.compile(rb"[\x20-\x7e]*").fullmatch
_CONTROLS = re.compile(rb"[\x00-\x1f\x7f]").findall


def text_cost(field: Field) -> Callable[[bytes], float]:
    """Return the cost function for a string's bytes; the length is not included."""
    return _text_cost(field.name, field.entity)


@functools.cache
def _text_cost(name: str, entity: str | None) -> Callable[[bytes], float]:
    is_name = entity in ("topicName", "groupId", "transactionalId") or name in ("host", "name", "topic", "key")
    is_topic = entity == "topicName"
    is_sentence = "message" in name or "reason" in name
    complete_set = _COMPLETE_SETS.get(name)
    usual_set = complete_set if complete_set is not None else _USUAL_SETS.get(name, set())
    matches, match_bonus, mismatch_cost = _PATTERNS.get(name, (None, 0.0, 0.0))
    if name in _USUAL_SETS:
        matches, mismatch_cost = usual_set.__contains__, _UNUSUAL_COST
    member_cost = 5.0 if name in _NEVER_A_MEMBER_ID else 0.0

    def field_cost(raw: bytes) -> float:
        if complete_set is not None:
            return _OUTSIDE_SET_COST
        if matches is not None:
            if matches(raw):
                return -match_bonus if not member_cost or not _MEMBER_ID(raw) else member_cost
            return mismatch_cost
        return member_cost if member_cost and _MEMBER_ID(raw) else 0.0

    def short_cost(raw: bytes) -> float:
        size = len(raw)
        if size == 0:
            return 7.0 if is_name else 1.0
        if raw in _WORDS:
            return (
                _EXPECTED_WORD_COST
                if raw in usual_set
                else _UNEXPECTED_WORD_COST + (_OUTSIDE_SET_COST if complete_set is not None else 0.0)
            )
        if _NAME(raw):
            return max(4.8 * size + 6 * is_sentence + field_cost(raw), _EXPECTED_WORD_COST)
        if _PRINTABLE(raw):
            cost = 5.2 * size if is_sentence else 6.0 * size + (WRONG_COST if is_topic else 6 * (b" " in raw))
            return max(cost + field_cost(raw), _EXPECTED_WORD_COST)
        return 8 * size + WRONG_COST * (1 + min(len(_CONTROLS(raw)), 4)) + (0 if _is_utf8(raw) else WRONG_COST)

    def cost(raw: bytes) -> float:
        size = len(raw)
        return (
            short_cost(raw)
            if size <= MAX_EVALUATED_BYTES
            else short_cost(raw[:MAX_EVALUATED_BYTES]) * size / MAX_EVALUATED_BYTES
        )

    return cost


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
