"""Which rules of other families explain an error better than the tables.

The rules of this family are silent about an error if one of its owners has found a problem with the same client: in the
response, since its request, or since a loop began. They give owners more time to report a loop. If the owners report
nothing, this family reports the error.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from dissectors.connections.events import ResponseReceived
from dissectors.rules import Rule, rules
from dissectors.rules.helpers.refused import ReturnedError
from dissectors.schemas.codes import Error
from dissectors.trackers.state import ConnectionState

#: The family of rules that need several frames.
_BEHAVIOUR_FAMILY = "S"
#: These rules report a loop within this time (s), if at all; the slowest ones wait longer.
OWNERS_TIME = 6.5
_SLOW_OWNERS_TIME = 8.5
_SLOW_ERRORS = (Error.LEADER_NOT_AVAILABLE, Error.UNKNOWN_TOPIC_OR_PARTITION)

_ACLS = ("X014", "X015")
_LOGIN = ("X007", "X008", "X012", "X013", "X017", "X021", "V014")
#: Rules about the batches of a Produce request.
_BATCHES = (
    "R001", "R002", "R004", "R005", "R006", "R007", "R008", "R011", "R012", "R016", "R018", "R019", "R020", "R022",
    "R023", "R024", "S084",
)  # fmt: skip
_FENCED = ("S032", "S035", "S084")

OWNERS: Final[Mapping[int, tuple[str, ...]]] = {
    Error.OFFSET_OUT_OF_RANGE: ("S026", "S027"),
    Error.CORRUPT_MESSAGE: _BATCHES,
    Error.INVALID_RECORD: _BATCHES,
    Error.MESSAGE_TOO_LARGE: ("R021",),
    Error.RECORD_LIST_TOO_LARGE: ("R021",),
    Error.UNSUPPORTED_COMPRESSION_TYPE: ("R013",),
    Error.UNKNOWN_TOPIC_OR_PARTITION: ("S011",),
    Error.LEADER_NOT_AVAILABLE: ("S006", "S011"),
    Error.NOT_LEADER_OR_FOLLOWER: ("S006", "S007", "S008"),
    Error.FETCH_SESSION_ID_NOT_FOUND: ("S029",),
    Error.INVALID_FETCH_SESSION_EPOCH: ("S029",),
    Error.UNKNOWN_TOPIC_ID: ("S030",),
    Error.INCONSISTENT_TOPIC_ID: ("S030",),
    Error.COORDINATOR_NOT_AVAILABLE: ("S023",),
    Error.NOT_COORDINATOR: ("S022",),
    Error.NOT_CONTROLLER: ("S040",),
    Error.REBOOTSTRAP_REQUIRED: ("S079",),
    Error.ILLEGAL_GENERATION: ("S016", "S020", "S078"),
    Error.UNKNOWN_MEMBER_ID: ("S015", "S016", "S078"),
    Error.REBALANCE_IN_PROGRESS: ("S078",),
    Error.STALE_MEMBER_EPOCH: ("S078",),
    Error.FENCED_MEMBER_EPOCH: ("S064", "S078", "S095"),
    Error.INVALID_RECORD_STATE: ("Q001",),
    Error.SHARE_SESSION_NOT_FOUND: ("Q004",),
    Error.INVALID_SHARE_SESSION_EPOCH: ("Q004",),
    Error.MEMBER_ID_REQUIRED: ("S014",),
    Error.OUT_OF_ORDER_SEQUENCE_NUMBER: _FENCED,
    Error.DUPLICATE_SEQUENCE_NUMBER: _FENCED,
    Error.INVALID_PRODUCER_EPOCH: (*_FENCED, "T003"),
    Error.UNKNOWN_PRODUCER_ID: _FENCED,
    Error.PRODUCER_FENCED: (*_FENCED, "T003"),
    Error.UNSUPPORTED_VERSION: ("V001", "V002", "V006", "V007", "V011", "V018"),
    Error.INVALID_REQUEST: ("V016",),
    Error.UNKNOWN_SUBSCRIPTION_ID: ("S094",),
    Error.TELEMETRY_TOO_LARGE: ("S100",),
    Error.TOPIC_AUTHORIZATION_FAILED: _ACLS,
    Error.GROUP_AUTHORIZATION_FAILED: _ACLS,
    Error.CLUSTER_AUTHORIZATION_FAILED: _ACLS,
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _ACLS,
    Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED: _ACLS,
    Error.UNSUPPORTED_SASL_MECHANISM: _LOGIN,
    Error.ILLEGAL_SASL_STATE: _LOGIN,
    Error.SASL_AUTHENTICATION_FAILED: _LOGIN,
    Error.DELEGATION_TOKEN_AUTH_DISABLED: _LOGIN,
    Error.DELEGATION_TOKEN_NOT_FOUND: _LOGIN,
    Error.DELEGATION_TOKEN_OWNER_MISMATCH: _LOGIN,
    Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: _LOGIN,
    Error.DELEGATION_TOKEN_EXPIRED: _LOGIN,
}


@functools.cache
def owners(api: str, code: int) -> tuple[str, ...]:
    """Return the codes of the behaviour rules that check the responses of an API and may explain the error code."""
    codes = OWNERS.get(code, ())
    return tuple(
        rule.code
        for rule in rules()
        if rule.code in codes and rule.code.startswith(_BEHAVIOUR_FAMILY) and _checks_responses(rule, api)
    )


def _checks_responses(rule: Rule, api: str) -> bool:
    return any(
        ResponseReceived in trigger.events and (not trigger.apis or api in trigger.apis) for trigger in rule.triggers
    )


def has_owner_reported(refusal: ReturnedError, connection: ConnectionState, *, since: int) -> bool:
    """Whether an owner of an error has found a problem with this client at `since` (ns) or later, in any API.

    No rule of another family knows that the broker contradicts itself.
    """
    if refusal.contradicted:
        return False
    return any(connection.has_problem(code, since=since) for code in OWNERS.get(refusal.code, ()))


def grace_period(refusal: ReturnedError, api: str) -> float:
    """Return the time (s) for which an error may repeat before this family reports it."""
    own_grace_period = refusal.judgement.grace_period
    if refusal.contradicted or not owners(api, refusal.code):
        return own_grace_period
    return max(own_grace_period, _SLOW_OWNERS_TIME if refusal.code in _SLOW_ERRORS else OWNERS_TIME)
