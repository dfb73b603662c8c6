"""Which fields are secrets, and how they are left out: by value for what is printed, by span for raw bytes.

A message that may carry a secret and could not be read to its end is withheld whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from dissectors.message import Message, walk_message
from dissectors.node import Node

#: Configuration names whose values Kafka itself treats as passwords.
_SENSITIVE = re.compile(
    r"password|secret|jaas|credential|keystore\.key|truststore\.certificates|certificate\.chain", re.IGNORECASE
)

Row = dict[str, Any]
#: Whether the secret is one in this struct.
When = Callable[[Row], bool]


def _always(_: Row) -> bool:
    return True


def _sensitive(row: Row) -> bool:
    return bool(row.get("is_sensitive")) or bool(_SENSITIVE.search(row.get("name") or row.get("config_name") or ""))


#: (api, is request) -> path to the structs, the fields in each, and when they are secret.
_SECRETS: dict[tuple[str, bool], tuple[tuple[tuple[str, ...], tuple[str, ...], When], ...]] = {
    ("SaslAuthenticate", True): (((), ("auth_bytes",), _always),),
    ("SaslAuthenticate", False): (((), ("auth_bytes",), _always),),
    ("AlterUserScramCredentials", True): ((("upsertions",), ("salt", "salted_password"), _always),),
    ("CreateDelegationToken", False): (((), ("hmac",), _always),),
    ("RenewDelegationToken", True): (((), ("hmac",), _always),),
    ("ExpireDelegationToken", True): (((), ("hmac",), _always),),
    ("DescribeDelegationToken", False): ((("tokens",), ("hmac",), _always),),
    ("AlterConfigs", True): ((("resources", "configs"), ("value",), _sensitive),),
    ("IncrementalAlterConfigs", True): ((("resources", "configs"), ("value",), _sensitive),),
    ("CreateTopics", True): ((("topics", "configs"), ("value",), _sensitive),),
    ("DescribeConfigs", False): (
        (("results", "configs"), ("value",), _sensitive),
        (("results", "configs", "synonyms"), ("value",), _sensitive),
    ),
    ("Envelope", True): (((), ("request_data",), _always),),
    ("Envelope", False): (((), ("response_data",), _always),),
}


def may_hold_secrets(message: Message) -> bool:
    """Whether messages of this API and direction have a field for a secret."""
    return (message.api, message.is_request) in _SECRETS


def unreadable_secret(message: Message) -> bool:
    """Whether this message may hold a secret and nothing says where: its body must be withheld."""
    return may_hold_secrets(message) and bool(message.error or message.opaque or message.trailing)


def redacted(message: Message) -> dict[str, Any]:
    """The body without its secrets; the same object if there are none."""
    rules = _SECRETS.get((message.api, message.is_request))
    if rules is None:
        return message.body
    if unreadable_secret(message):
        return {}
    body = message.body
    for path, names, when in rules:
        body = _redact(body, path, names, when)
    return body


def _redact(row: Row, path: tuple[str, ...], names: tuple[str, ...], when: When) -> Row:
    if path:
        below = row.get(path[0])
        if not isinstance(below, list):
            return row
        return {**row, path[0]: [_redact(each, path[1:], names, when) for each in below]}
    if not when(row):
        return row
    return {**row, **{name: _withheld(row[name]) for name in names if row.get(name) is not None}}


def _withheld(value: Any) -> str:
    return f"(redacted, {len(value)} {'bytes' if isinstance(value, bytes) else 'characters'})"


def redact_tree(message: Message, nodes: list[Node]) -> list[tuple[int, int]]:
    """Replace the secrets in a tree made by `walk_message`; return their spans in the frame."""
    rules = _SECRETS.get((message.api, message.is_request))
    body = next((node for node in nodes if node.name == "body"), None)
    if rules is None:
        return []
    if body is None or unreadable_secret(message):
        if body is not None:
            body.children = [Node("(redacted)", body.start, len(message.frame))]
        return [(message.body_start, len(message.frame))]
    spans: list[tuple[int, int]] = []
    for path, names, when in rules:
        _redact_nodes(body, message.body, path, names, when, spans)
    return spans


def _redact_nodes(
    node: Node, row: Row, path: tuple[str, ...], names: tuple[str, ...], when: When, spans: list[tuple[int, int]]
) -> None:
    for child in node.children:
        if path and child.name == path[0]:
            for element, values in zip(child.children, row.get(path[0]) or (), strict=False):
                _redact_nodes(element, values, path[1:], names, when, spans)
        elif not path and child.name in names and child.value is not None and when(row):
            spans.append((child.start, child.end))
            child.value = _withheld(child.value)


def redacted_frame(message: Message) -> bytes:
    """The frame with the bytes of its secrets set to zero; lengths stay."""
    if not may_hold_secrets(message):
        return message.frame
    frame = bytearray(message.frame)
    for start, end in redact_tree(message, walk_message(message).nodes):
        frame[start:end] = bytes(end - start)
    return bytes(frame)
