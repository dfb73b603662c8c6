"""Secret fields of messages and embedded payloads, and the text that replaces them.

The whole body of a message is withheld if it may contain a secret but does not decode to its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dissectors.messages.message import Message
from dissectors.schemas.sensitive_configs import is_sensitive_config
from dissectors.wire.primitives import TEXT_ERRORS

#: The beginning of a JSON Web Token: validators of OAUTHBEARER quote tokens that they refuse.
_TOKEN = re.compile(r"eyJ[A-Za-z0-9_-]{8}")

Row = dict[str, Any]
#: Returns whether the fields of this struct are secret.
Condition = Callable[[Row], bool]
#: (path to the structs, names of the secret fields in each, condition).
Rule = tuple[tuple[str, ...], tuple[str, ...], Condition]


def _is_always_secret(_: Row) -> bool:
    return True


def _quotes_token(row: Row) -> bool:
    return bool(_TOKEN.search(row.get("error_message") or ""))


def _is_sensitive(row: Row) -> bool:
    return is_sensitive_config(row.get("name") or "")


#: (API, is request) -> rules.
_MESSAGES: dict[tuple[str, bool], tuple[Rule, ...]] = {
    ("SaslAuthenticate", True): (((), ("auth_bytes",), _is_always_secret),),
    ("SaslAuthenticate", False): (((), ("auth_bytes",), _is_always_secret), ((), ("error_message",), _quotes_token)),
    ("AlterUserScramCredentials", True): ((("upsertions",), ("salt", "salted_password"), _is_always_secret),),
    ("CreateDelegationToken", False): (((), ("hmac",), _is_always_secret),),
    ("RenewDelegationToken", True): (((), ("hmac",), _is_always_secret),),
    ("ExpireDelegationToken", True): (((), ("hmac",), _is_always_secret),),
    ("DescribeDelegationToken", False): ((("tokens",), ("hmac",), _is_always_secret),),
    ("AlterConfigs", True): ((("resources", "configs"), ("value",), _is_sensitive),),
    ("IncrementalAlterConfigs", True): ((("resources", "configs"), ("value",), _is_sensitive),),
    ("CreateTopics", True): ((("topics", "configs"), ("value",), _is_sensitive),),
    ("CreateTopics", False): ((("topics", "configs"), ("value",), _is_sensitive),),
    ("DescribeConfigs", False): (
        (("results", "configs"), ("value",), _is_sensitive),
        (("results", "configs", "synonyms"), ("value",), _is_sensitive),
    ),
    ("Envelope", True): (((), ("request_data",), _is_always_secret),),
    ("Envelope", False): (((), ("response_data",), _is_always_secret),),
}


#: The APIs with secret fields, by Kafka's names.
APIS = tuple(sorted({api for api, _ in _MESSAGES}))

#: Payload -> (names of its secret fields, condition). DelegationTokenRecord has none, as its HMAC is not in the log.
_PAYLOADS: dict[str, tuple[tuple[str, ...], Condition]] = {
    "UserScramCredentialRecord": (("salt", "stored_key", "server_key"), _is_always_secret),
    "ConfigRecord": (("value",), _is_sensitive),
}

#: Topics whose record data is shown only if it is known to contain no secret.
SECRET_TOPICS = frozenset({"__cluster_metadata"})


def rules(message: Message) -> tuple[Rule, ...]:
    """Return the rules for messages of this API and direction; empty if they have no secret fields."""
    return _MESSAGES.get((message.api, message.is_request), ())


def may_hold_secrets(message: Message) -> bool:
    """Whether messages of this API and direction have secret fields."""
    return bool(rules(message))


def has_unreadable_secret(message: Message) -> bool:
    """Whether the whole body must be withheld: it may contain a secret, but does not decode."""
    return may_hold_secrets(message) and bool(message.error or message.opaque or message.trailing)


def holds_secret(message: Message) -> bool:
    """Whether part of this message is withheld."""
    return has_unreadable_secret(message) or redacted(message) != message.body


def redacted(message: Message) -> dict[str, Any]:
    """Return the body with its secrets replaced; the same object if it has no secrets."""
    if has_unreadable_secret(message):
        return {}
    body = message.body
    for path, names, condition in rules(message):
        body = _redact(body, path, names, condition)
    return body


def _redact(row: Row, path: tuple[str, ...], names: tuple[str, ...], condition: Condition) -> Row:
    condition = condition_within(row, condition)
    if path:
        elements = row.get(path[0])
        if not isinstance(elements, list):
            return row
        return {**row, path[0]: [_redact(element, path[1:], names, condition) for element in elements]}
    if not condition(row):
        return row
    return {**row, **{name: redaction_text(row[name]) for name in names if row.get(name) is not None}}


def condition_within(row: Row, condition: Condition) -> Condition:
    """Return the condition for a struct and those in it: brokers mark a sensitive config, but not its synonyms."""
    return _is_always_secret if row.get("is_sensitive") else condition


def payload_secrets(payload: str, row: Row) -> tuple[str, ...]:
    """Return the names of the secret fields of a decoded payload that are not null."""
    names, condition = _PAYLOADS.get(payload, ((), _is_always_secret))
    return tuple(name for name in names if row.get(name) is not None) if names and condition(row) else ()


def value_size(value: str | bytes | memoryview) -> int:
    """Return the size of a value in bytes, without its length prefix."""
    return len(value.encode("utf-8", TEXT_ERRORS) if isinstance(value, str) else value)


def redaction_text(value: str | bytes | memoryview) -> str:
    """Return the text that replaces a secret: ``(redacted, 32 bytes)``."""
    return f"(redacted, {value_size(value)} bytes)"
