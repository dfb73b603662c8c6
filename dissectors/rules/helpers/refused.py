"""ReturnedError: an error in a response and its target, with the texts that describe them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

from dissectors.bounded import MAX_NAME_LENGTH
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ResponseReceived
from dissectors.messages import summary
from dissectors.messages.message import Message
from dissectors.messages.secret_fields import holds_secret, may_hold_secrets
from dissectors.plain_text import printable_text
from dissectors.refusals import ErrorJudgement, judgement
from dissectors.refusals.contradictions import contradiction
from dissectors.trackers.state import ConnectionState
from dissectors.wire.layout import NULL_UUID
from dissectors.wire.paths import parts

_MAX_TEXT = 200
_MAX_TARGETS = 3

#: The maximum number of elements with the same error that are read from a response, which may have very many.
_MAX_ELEMENTS = 100
#: The maximum number of elements that are read from a response.
MAX_RESULTS = 1_000

#: Fields that name what a struct in a response is about, with their kinds.
_KINDS = {
    "group_id": "group",
    "transactional_id": "transactional id",
    "resource_name": "resource",
    "user": "user",
    "feature": "feature",
    "broker_id": "broker",
    "key": "key",
    "topic": "topic",
    "topic_name": "topic",
    "name": "topic",
    "topic_id": "topic",
    "partition_index": "partition",
    "partition": "partition",
    "index": "partition",
    "partition_id": "partition",
}
_TOPIC_KINDS = ("topic", "partition")
_COORDINATOR_KEYS = {0: "group", 1: "transactional id", 2: "share partition"}

#: What an error is about: kinds with names, e.g. ``(("group", "g"), ("topic", "orders"), ("partition", 0))``.
Target = tuple[tuple[str, Any], ...]
#: The path of an error code without indexes, e.g. ``("responses", "partition_responses", "error_code")``.
Pattern = tuple[str, ...]


class ReturnedError(NamedTuple):
    """An error in a response. It is `contradicted` if the request or the response shows that the broker is wrong."""

    path: tuple[str, ...]
    code: int
    name: str
    target: Target
    row: dict[str, Any]
    judgement: ErrorJudgement
    contradicted: bool = False

    @property
    def pattern(self) -> Pattern:
        """The path of the error code without indexes."""
        return tuple(part for part in self.path if not part.isdigit())


def refusals(event: ResponseReceived) -> list[ReturnedError]:
    """Return a response's errors in wire order, up to a limit for each code; none if it is malformed."""
    message = event.message
    if message is None or message.diagnosis is not None or event.request is None:
        return []
    cached = message.refusals_cache
    if cached is None:
        cached = message.refusals_cache = _read_refusals(event, message)
    return cached


def _read_refusals(event: ResponseReceived, message: Message) -> list[ReturnedError]:
    request_target, request_body = _request_target(event), event.request_body
    errors: list[ReturnedError] = []
    counts: Counter[int] = Counter()
    for error in summary.errors(message):
        counts[error.code] += 1
        if counts[error.code] > _MAX_ELEMENTS:
            continue
        if len(errors) == MAX_RESULTS:
            break
        path = tuple(parts(error.path))
        target, row = _error_target(message.body, path, request_target)
        contradicted = (
            None if request_body is None else contradiction(message.api, message.version, error.code, request_body, row)
        )
        error_judgement = contradicted or judgement(message.api, error.code)
        errors.append(
            ReturnedError(path, error.code, error.name, target, row, error_judgement, contradicted is not None)
        )
    return errors


def results(event: ResponseReceived, pattern: Pattern) -> Iterator[tuple[Target, int]]:
    """Return the target and the error code (possibly 0) of each response element that matches a pattern.

    There are at most `MAX_RESULTS` elements.
    """
    assert event.message is not None
    return islice(_find_results(event.message.body, pattern, _request_target(event)), MAX_RESULTS)


def _find_results(values: Any, pattern: Sequence[str], target: Target) -> Iterator[tuple[Target, int]]:
    if not isinstance(values, dict):
        return
    target = _extended_target(values, target)
    name, *remaining = pattern
    value = values.get(name)
    if not remaining:
        if isinstance(value, int):
            yield target, value
    elif isinstance(value, list):
        for element in value:
            yield from _find_results(element, remaining, target)
    else:
        yield from _find_results(value, remaining, target)


def _error_target(body: dict[str, Any], path: tuple[str, ...], request_target: Target) -> tuple[Target, dict[str, Any]]:
    """Return what the error at a path is about, and the struct that contains it."""
    value: Any = body
    target, row = _extended_target(body, request_target), body
    for part in path[:-1]:
        value = value[int(part)] if isinstance(value, list) else value.get(part)
        if isinstance(value, dict):
            target, row = _extended_target(value, target), value
    return target, row


def _extended_target(row: dict[str, Any], target: Target) -> Target:
    """Return a target extended with the resources that a struct names. A topic's name takes precedence over its id."""
    names: dict[str, Any] = {}
    for name, value in row.items():
        kind = _KINDS.get(name)
        if kind is None or not isinstance(value, str | int) or value in ("", NULL_UUID):
            continue
        if name != "topic_id" or kind not in names:
            names[kind] = value
    if not names:
        return target
    return (*(part for part in target if part[0] not in names), *names.items())


def _request_target(event: ResponseReceived) -> Target:
    """Return the group, transaction or key that the whole request is about."""
    request = event.request
    if request is None or not request.message.well_formed:
        return ()
    message = request.message
    if message.api == "FindCoordinator":
        kind = _COORDINATOR_KEYS.get(message.body.get("key_type", 0), "key")
        return ((kind, key),) if isinstance(key := message.body.get("key"), str) else ()
    target: list[tuple[str, Any]] = []
    if (group := summary.group_id(message)) is not None:
        target.append(("group", group))
    if (transaction := summary.transactional_id(message)) is not None:
        target.append(("transactional id", transaction))
    return tuple(target)


def drop_partition(target: Target) -> Target:
    """Return a target without its partition, which is not a root cause of its own."""
    return tuple(part for part in target if part[0] != "partition")


def target_text(target: Target, connection: ConnectionState) -> str:
    """Return a target as text: ``group 'g', orders[0]``."""
    texts, topic, partition = [], "", None
    for kind, name in target:
        if kind == "topic":
            topic = one_line(connection.run.topic_names.get(name) or name, MAX_NAME_LENGTH)
        elif kind == "partition":
            partition = name
        else:
            texts.append(f"{kind} {one_line(repr(name), MAX_NAME_LENGTH)}")
    if topic:
        texts.append(f"{topic}[{partition}]" if partition is not None else f"topic {topic}")
    return ", ".join(texts)


def targets_text(targets: Sequence[Target], connection: ConnectionState) -> str:
    """Return several targets as a clause that begins with ``for``, or an empty string if no field names any."""
    shared = {tuple(part for part in target if part[0] not in _TOPIC_KINDS) for target in targets}
    if len(shared) == 1 and len(targets) > 1 and (common := target_text(next(iter(shared)), connection)):
        topic_targets = [tuple(part for part in target if part[0] in _TOPIC_KINDS) for target in targets]
        topics_text = targets_text(topic_targets, connection)
        return f" for {common}" + (topics_text.replace(" for ", ", ", 1) if topics_text else "")
    texts = list(dict.fromkeys(filter(None, (target_text(target, connection) for target in targets))))
    if not texts:
        return ""
    more_text = f" and {len(texts) - _MAX_TARGETS} more" if len(texts) > _MAX_TARGETS else ""
    return f" for {', '.join(texts[:_MAX_TARGETS])}{more_text}"


def client_name(connection: ConnectionState) -> str:
    """Return the client as a sentence names it: by its client id, otherwise by its host."""
    if connection.client_id:
        return f"client {one_line(repr(connection.client_id), MAX_NAME_LENGTH)}"
    return f"client {host_of(connection.client)}" if connection.client else "the client"


def client_key(connection: ConnectionState) -> tuple[str, str | None]:
    """Return the identity of a client across its connections: host and client id."""
    return host_of(connection.client), connection.client_id


def broker_text(event: ResponseReceived, refusal: ReturnedError) -> str:
    """Return the broker's error message as a clause, or an empty string if there is none or it may quote a secret."""
    assert event.message is not None
    row = refusal.row
    texts = [row.get("error_message"), row.get("acknowledge_error_message")]
    texts += [error.get("batch_index_error_message") for error in (row.get("record_errors") or ())[:1]]
    texts.append(event.message.body.get("error_message"))
    text = next(
        (text for text in texts if isinstance(text, str) and text.strip() not in ("", "NONE", refusal.name)), None
    )
    if text is None or event.message.api.startswith("Sasl"):
        return ""
    request = event.request
    if request is not None and may_hold_secrets(request.message) and holds_secret(request.message):
        return ""
    return f'; the broker says "{one_line(text.strip(), _MAX_TEXT)}"'


def values_text(event: ResponseReceived, refusal: ReturnedError) -> str:
    """Return the values of the request fields that an error is about: `` (session_timeout_ms is 1000)``."""
    request_body = event.request_body
    if request_body is None or not refusal.judgement.fields:
        return ""
    element = _find_element(request_body, dict(refusal.target)) or request_body
    texts = []
    for name in refusal.judgement.fields:
        value = element.get(name, request_body.get(name))
        if isinstance(value, str | int) or (value is None and (name in element or name in request_body)):
            texts.append(
                f"{name} is {one_line(repr(value) if isinstance(value, str) else str(value), MAX_NAME_LENGTH)}"
            )
    return f" ({', '.join(texts)})".replace("None", "null") if texts else ""


def _find_element(request_body: dict[str, Any], target: dict[str, Any]) -> dict[str, Any] | None:
    """Return the request's struct for a target's partition, or otherwise the one for its topic."""
    topic, partition = target.get("topic"), target.get("partition")
    if topic is None:
        return None
    for topic_row in _structs(request_body):
        if ("topic", topic) in _extended_target(topic_row, ()):
            partitions = (
                struct for struct in _structs(topic_row) if ("partition", partition) in _extended_target(struct, ())
            )
            return next(partitions, topic_row)
    return None


def _structs(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the structs in the arrays of a struct."""
    for value in row.values():
        if isinstance(value, list):
            yield from (element for element in value if isinstance(element, dict))


def one_line(text: str, limit: int) -> str:
    """Return a peer's text as one line, cut off after `limit` characters."""
    return printable_text(text if len(text) <= limit else f"{text[:limit]}...")
