"""Which fields are secrets, in messages and in the payloads inside them, and what stands in their place.

A message that may carry a secret and could not be read to its end is withheld whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dissectors.messages.message import Message
from dissectors.wire.primitives import TEXT_ERRORS

#: Configuration names whose values Kafka itself treats as passwords.
_SENSITIVE_CONFIG = re.compile(
    r"pass(word|phrase)|secret|jaas|credential|master\.key|keystore\.key|truststore\.certificates|certificate\.chain",
    re.IGNORECASE,
)

#: How a JSON Web Token begins: validators of OAUTHBEARER quote those that they refuse.
_TOKEN = re.compile(r"eyJ[A-Za-z0-9_-]{8}")

Row = dict[str, Any]
#: Whether the secret is one in this struct.
When = Callable[[Row], bool]
#: Path to the structs, the fields in each, and when they are secret.
Rule = tuple[tuple[str, ...], tuple[str, ...], When]


def _always(_: Row) -> bool:
    return True


def _quotes_token(row: Row) -> bool:
    return bool(_TOKEN.search(row.get("error_message") or ""))


def _sensitive(row: Row) -> bool:
    return bool(_SENSITIVE_CONFIG.search(row.get("name") or ""))


#: (api, is request) -> its rules.
_MESSAGES: dict[tuple[str, bool], tuple[Rule, ...]] = {
    ("SaslAuthenticate", True): (((), ("auth_bytes",), _always),),
    ("SaslAuthenticate", False): (((), ("auth_bytes",), _always), ((), ("error_message",), _quotes_token)),
    ("AlterUserScramCredentials", True): ((("upsertions",), ("salt", "salted_password"), _always),),
    ("CreateDelegationToken", False): (((), ("hmac",), _always),),
    ("RenewDelegationToken", True): (((), ("hmac",), _always),),
    ("ExpireDelegationToken", True): (((), ("hmac",), _always),),
    ("DescribeDelegationToken", False): ((("tokens",), ("hmac",), _always),),
    ("AlterConfigs", True): ((("resources", "configs"), ("value",), _sensitive),),
    ("IncrementalAlterConfigs", True): ((("resources", "configs"), ("value",), _sensitive),),
    ("CreateTopics", True): ((("topics", "configs"), ("value",), _sensitive),),
    ("CreateTopics", False): ((("topics", "configs"), ("value",), _sensitive),),
    ("DescribeConfigs", False): (
        (("results", "configs"), ("value",), _sensitive),
        (("results", "configs", "synonyms"), ("value",), _sensitive),
    ),
    ("Envelope", True): (((), ("request_data",), _always),),
    ("Envelope", False): (((), ("response_data",), _always),),
}


#: The APIs that have a field for a secret, by Kafka's names.
APIS = tuple(sorted({api for api, _ in _MESSAGES}))

#: Payload -> its secret fields, and when they are. A DelegationTokenRecord has none: its HMAC is not in the log.
_PAYLOADS: dict[str, tuple[tuple[str, ...], When]] = {
    "UserScramCredentialRecord": (("salt", "stored_key", "server_key"), _always),
    "ConfigRecord": (("value",), _sensitive),
}

#: Topics whose record data is shown only as far as it is known to hold no secret.
SECRET_TOPICS = frozenset({"__cluster_metadata"})


def rules(message: Message) -> tuple[Rule, ...]:
    """Where messages of this API and direction may hold secrets; nowhere if empty."""
    return _MESSAGES.get((message.api, message.is_request), ())


def may_hold_secrets(message: Message) -> bool:
    """Whether messages of this API and direction have a field for a secret."""
    return bool(rules(message))


def unreadable_secret(message: Message) -> bool:
    """Whether this message may hold a secret and nothing says where: its body must be withheld."""
    return may_hold_secrets(message) and bool(message.error or message.opaque or message.trailing)


def holds_secret(message: Message) -> bool:
    """Whether something of this message is withheld."""
    return unreadable_secret(message) or redacted(message) != message.body


def redacted(message: Message) -> dict[str, Any]:
    """The body without its secrets; the same object if there are none."""
    if unreadable_secret(message):
        return {}
    body = message.body
    for path, names, when in rules(message):
        body = _redact(body, path, names, when)
    return body


def _redact(row: Row, path: tuple[str, ...], names: tuple[str, ...], when: When) -> Row:
    when = within(row, when)
    if path:
        below = row.get(path[0])
        if not isinstance(below, list):
            return row
        return {**row, path[0]: [_redact(each, path[1:], names, when) for each in below]}
    if not when(row):
        return row
    return {**row, **{name: withheld(row[name]) for name in names if row.get(name) is not None}}


def within(row: Row, when: When) -> When:
    """What holds for this struct and those in it: a broker marks the configuration, not its synonyms."""
    return _always if row.get("is_sensitive") else when


def payload_secrets(payload: str, row: Row) -> tuple[str, ...]:
    """The fields of a decoded payload that are secret and not null."""
    names, when = _PAYLOADS.get(payload, ((), _always))
    return tuple(name for name in names if row.get(name) is not None) if names and when(row) else ()


def size(value: str | bytes | memoryview) -> int:
    """The bytes that a value takes on the wire, without its length."""
    return len(value.encode("utf-8", TEXT_ERRORS) if isinstance(value, str) else value)


def withheld(value: str | bytes | memoryview) -> str:
    """What is shown in place of a secret: ``(redacted, 32 bytes)``."""
    return f"(redacted, {size(value)} bytes)"
