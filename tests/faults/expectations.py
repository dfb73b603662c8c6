"""The facts that the first report about a fault must contain: the API, the error or symptom, and who must act."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final

from tests.faults.scenarios import Scenario
from tests.faults.screen import Report

_RULE_NAME: Final = re.compile(r"^! \S+ \S+|^\S+ \S+")  # the name of the rule
#: Words for those who can fix a fault; a report must contain one of them.
_BROKER: Final = r"broker|server|leader|coordinator|controller|cluster|replica|disk|gateway"
_CLIENT: Final = r"client|producer|consumer|member|application|principal|request |[a-z]+\.[a-z.]+ "
_OPERATOR: Final = r"\bacl|grant|allow|permission|authoriz|quota|policy|create|config|[a-z]+\.[a-z.]+ "

_FAULTS_OF_CLIENTS: Final = frozenset(
    [
        "INVALID_RECORD",
        "MESSAGE_TOO_LARGE",
        "RECORD_LIST_TOO_LARGE",
        "INVALID_TIMESTAMP",
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        "INVALID_REQUIRED_ACKS",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "UNKNOWN_PRODUCER_ID",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_TXN_STATE",
        "PRODUCER_FENCED",
        "TRANSACTION_ABORTABLE",
        "FENCED_INSTANCE_ID",
        "INCONSISTENT_GROUP_PROTOCOL",
        "INVALID_SESSION_TIMEOUT",
        "INVALID_GROUP_ID",
        "OFFSET_METADATA_TOO_LARGE",
        "INVALID_REQUEST",
        "INVALID_PARTITIONS",
        "INVALID_REPLICATION_FACTOR",
        "INVALID_CONFIG",
        "INVALID_REPLICA_ASSIGNMENT",
        "FENCED_MEMBER_EPOCH",
        "STALE_MEMBER_EPOCH",
        "UNRELEASED_INSTANCE_ID",
        "UNSUPPORTED_ASSIGNOR",
        "INVALID_TRANSACTION_TIMEOUT",
        "GROUP_ID_NOT_FOUND",
        "NON_EMPTY_GROUP",
        "GROUP_SUBSCRIBED_TO_TOPIC",
        "TOPIC_ALREADY_EXISTS",
        "INVALID_TOPIC_EXCEPTION",
        "SASL_AUTHENTICATION_FAILED",
        "INVALID_RECORD_STATE",
        "UNACCEPTABLE_CREDENTIAL",
        "RESOURCE_NOT_FOUND",
        "NO_REASSIGNMENT_IN_PROGRESS",
        "TRANSACTIONAL_ID_NOT_FOUND",
        "INVALID_COMMIT_OFFSET_SIZE",
        "ILLEGAL_GENERATION",
        "REBALANCE_IN_PROGRESS",
        "UNSTABLE_OFFSET_COMMIT",
    ]
)
_FAULTS_OF_OPERATORS: Final = frozenset(
    [
        "GROUP_MAX_SIZE_REACHED",
        "SECURITY_DISABLED",
        "THROTTLING_QUOTA_EXCEEDED",
        "POLICY_VIOLATION",
        "TOPIC_DELETION_DISABLED",
        "DELEGATION_TOKEN_AUTH_DISABLED",
    ]
)
#: Errors for which, depending on the API, either the client or someone else is responsible.
_ALSO_RESPONSIBLE: Final[Mapping[str, str]] = {
    "UNKNOWN_TOPIC_OR_PARTITION": _OPERATOR,
    "OFFSET_OUT_OF_RANGE": _BROKER,
    "UNSUPPORTED_SASL_MECHANISM": _BROKER,
}
_NO_RESPONSE_WORDS: Final = r"no (answer|response)|not (been )?answer|unanswered|never answer|wait(s|ed|ing)?\b"
#: Words that describe a fault, by its kind.
_EXPECTED_WORDS: Final[Mapping[str, str]] = {
    "drop": _NO_RESPONSE_WORDS,
    "close": r"clos|reset|reconnect",
    "delay": _NO_RESPONSE_WORDS + r"|slow|took|late\b|after \d",
    "empty": r"empty|\bno \w+|without|leaves out|lacks|missing|not (in|contain)|none",
}


#: Words that describe a different fault, by the kind of the actual fault.
_MISLEADING: Final[Mapping[str, re.Pattern[str]]] = {"close": re.compile("may require SASL")}


def missing_facts(scenario: Scenario, report: Report) -> tuple[str, ...]:
    """Return the facts about the fault of a scenario that a report lacks."""
    text = f"{report.text} {report.frame}" if report.code.startswith("L") else report.text
    if scenario.kind in _MISLEADING and _MISLEADING[scenario.kind].search(text):
        text = ""
    without_names = (
        _RULE_NAME.sub("", text).replace(scenario.api, "").replace(scenario.detail or "\0", "")
    )  # many names contain words from the patterns
    return tuple(
        name
        for name, pattern in _facts(scenario).items()
        if not pattern.search(without_names if name == "who" else text) or (name == "who" and "hint:" not in text)
    )


@functools.cache
def _facts(scenario: Scenario) -> Mapping[str, re.Pattern[str]]:
    """Return the patterns that the report must match, by the name of the fact."""
    patterns = {"API": rf"\b{scenario.api}s?\b"}
    if scenario.kind == "error":
        patterns |= {"error": rf"\b{scenario.detail}\b", "who": _responsible_words(scenario.detail)}
    elif scenario.kind == "layout":
        field = scenario.detail.split(":")[1].rpartition(".")[2]
        patterns |= {"layout": r"\bL\d{3} ", "field": r"compact|tag buffer|flexible" if field == "fixed" else field}
    else:
        patterns |= {scenario.kind: _EXPECTED_WORDS[scenario.kind], "who": _BROKER}
    return {name: re.compile(pattern, re.IGNORECASE) for name, pattern in patterns.items()}


def _responsible_words(error: str) -> str:
    if error in _ALSO_RESPONSIBLE:
        return f"{_CLIENT}|{_ALSO_RESPONSIBLE[error]}"
    if error in _FAULTS_OF_CLIENTS:
        return _CLIENT
    return _OPERATOR if error.endswith("AUTHORIZATION_FAILED") or error in _FAULTS_OF_OPERATORS else _BROKER
