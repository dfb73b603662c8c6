"""The protocol's facts: messages, APIs, error codes and enums of all imported Kafka releases, loaded on demand.

``kproxy schemas import`` writes the data files in this package. Nothing is read at import; a message, which is one line
of ``messages.jsonl``, is parsed when it is first used.
"""

from __future__ import annotations

import functools
import json
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dissectors.schemas.versions import VersionRange

__all__ = [
    "Api",
    "ErrorCode",
    "ServedVersions",
    "VersionRange",
    "api",
    "api_by_name",
    "apis",
    "coordinator_record",
    "coordinator_records",
    "enum",
    "error",
    "error_name",
    "header_versions",
    "kips",
    "kraft_record",
    "message",
    "message_names",
    "releases",
    "request",
    "response",
]


@dataclass(frozen=True, slots=True)
class ServedVersions:
    """The versions of an API in one release: `lowest` to `highest`; those above `stable` (-1: all) are early access."""

    lowest: int
    highest: int
    stable: int
    listeners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Api:
    """One API over all releases. `flexible_from` is the first flexible version, None if there is none.

    `releases` maps a release (``"4.4.0"``) to its served versions; releases without the API are left out. `aliases`
    maps a release to its name of the API, if that differs.
    """

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int | None
    releases: Mapping[str, ServedVersions]
    aliases: Mapping[str, str]
    headers: Mapping[int, tuple[int, int]]

    @property
    def versions(self) -> range:
        """All versions of any release."""
        return range(self.min_version, self.max_version + 1)


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """An error code. `retriable`: the same request may succeed later; `invalid_metadata`: after a metadata refresh."""

    code: int
    name: str
    retriable: bool
    invalid_metadata: bool


def _read(file: str) -> bytes:
    data = pkgutil.get_data(__name__, file)
    assert data is not None
    return data


@functools.cache
def _lines() -> dict[str, bytes]:
    """Return the line of each message by name. Lines begin with ``{"name":"``, so finding a name needs no parsing."""
    start = len('{"name":"')
    return {line[start : line.index(b'"', start)].decode(): line for line in _read("messages.jsonl").splitlines()}


def message(name: str, component: str | None = None) -> Mapping[str, Any]:
    """Return a message as in Kafka's definitions, merged over all releases. Do not modify the result.

    Args:
        name: Kafka's name, e.g. ``FetchRequest`` or ``GroupMetadataValue``.
        component: The jar that defines it, e.g. ``kafka-clients``; None for any.

    Returns:
        Keys ``name``, ``type`` (request, response, header, data, metadata, coordinator-key, coordinator-value),
        ``apiKey`` (if it has one), ``component``, ``versions``, ``served`` (release -> versions in that release's
        numbering), ``flexible``, ``fields`` and, if they apply, ``deprecated`` and ``aliases`` (release -> ...). A
        field has ``name``, ``type``, ``versions`` and the other keys of Kafka's definition; shared structs are
        repeated wherever they are used.

    Raises:
        KeyError: The message is unknown.

    Source: the definitions in Kafka's jars, clients/src/main/resources/common/message/README.md.
    """
    message = _message(name)
    if component is not None and message["component"] != component:
        raise KeyError(f"{component} defines no message {name}")
    return message


@functools.cache
def _message(name: str) -> Mapping[str, Any]:
    line = _lines().get(name)
    if line is None:
        raise KeyError(f"no message {name}")
    parsed: dict[str, Any] = json.loads(line)
    return parsed


def message_names() -> tuple[str, ...]:
    """Return the names of all messages, APIs first, in the order of the data."""
    return tuple(_lines())


@functools.cache
def _apis() -> dict[int, Api]:
    return {entry["key"]: _api(entry) for entry in json.loads(_read("apis.json"))}


def _api(entry: Mapping[str, Any]) -> Api:
    served = {release: ServedVersions(s["min"], s["max"], s["stable"], tuple(s["listeners"]))
              for release, s in entry["releases"].items()}  # fmt: skip
    return Api(
        key=entry["key"],
        name=entry["name"],
        min_version=min(s.lowest for s in served.values()),
        max_version=max(s.highest for s in served.values()),
        flexible_from=entry["flexible"],
        releases=served,
        aliases=entry.get("aliases", {}),
        headers={int(version): (pair[0], pair[1]) for version, pair in entry.get("headers", {}).items()},
    )


def api(key: int) -> Api | None:
    """Return the API with this key, None if unknown."""
    return _apis().get(key)


@functools.cache
def _apis_by_name() -> dict[str, Api]:
    return {api.name: api for api in apis()}


def api_by_name(name: str) -> Api | None:
    """Return the API with this name, e.g. ``Produce``; None if unknown."""
    return _apis_by_name().get(name)


def apis() -> tuple[Api, ...]:
    """Return all APIs, ordered by key."""
    return tuple(_apis().values())


def releases() -> tuple[str, ...]:
    """Return the Kafka releases in the data, oldest first."""
    oldest_first = message("RequestHeader")["served"]
    return tuple(oldest_first)


def request(api_key: int) -> str | None:
    """Return the name of the API's request message, None if the API is unknown."""
    known_api = api(api_key)
    return f"{known_api.name}Request" if known_api else None


def response(api_key: int) -> str | None:
    """Return the name of the API's response message, None if the API is unknown."""
    known_api = api(api_key)
    return f"{known_api.name}Response" if known_api else None


def header_versions(api_key: int, version: int) -> tuple[int, int]:
    """Return the versions of the request header and of the response header.

    Flexible versions have (2, 1), others (1, 0); the exceptions (ApiVersions, ControlledShutdown) are in the data.

    Raises:
        KeyError: The API is unknown.

    Source: KIP-482, KIP-511, Kafka's ApiMessageType.
    """
    api = _apis()[api_key]
    flexible = api.flexible_from is not None and version >= api.flexible_from
    return api.headers.get(version) or ((2, 1) if flexible else (1, 0))


@functools.cache
def _errors() -> dict[int, ErrorCode]:
    return {e["code"]: ErrorCode(e["code"], e["name"], e["retriable"], e["invalid_metadata"])
            for e in json.loads(_read("errors.json"))}  # fmt: skip


def errors() -> tuple[ErrorCode, ...]:
    """Return all error codes, including NONE."""
    return tuple(_errors().values())


def error(code: int) -> ErrorCode | None:
    """Return the error with this code, None if unknown; 0 is NONE, -1 is UNKNOWN_SERVER_ERROR."""
    return _errors().get(code)


def error_name(code: int) -> str | None:
    """Return Kafka's constant for an error code, e.g. ``NOT_LEADER_OR_FOLLOWER``; None if unknown."""
    error_code = error(code)
    return error_code.name if error_code else None


@functools.cache
def _enums() -> dict[str, dict[int, str]]:
    return {name: {int(code): label for code, label in table.items()}
            for name, table in json.loads(_read("enums.json")).items()}  # fmt: skip


def enum(name: str) -> dict[int, str]:
    """Return a table that maps codes to names, e.g. ``isolation_level``. Do not modify the result.

    Raises:
        KeyError: The table is unknown.
    """
    return _enums()[name]


@functools.cache
def _kips() -> dict[str, dict[str, list[int]]]:
    return json.loads(_read("kips.json"))  # type: ignore[no-any-return]


def kips(api: str, version: int) -> tuple[int, ...]:
    """Return the numbers of the KIPs that introduced a version of an API, as far as Kafka's definitions name them.

    Source: the comments of the definitions in Kafka's jars.
    """
    return tuple(_kips().get(api, {}).get(str(version), ()))


@functools.cache
def _records(kind: str) -> dict[tuple[str, int], str]:
    """Return the names of the messages of one type, by (component, key)."""
    marker = f'"type":"{kind}"'.encode()
    messages = [_message(name) for name, line in _lines().items() if marker in line]
    return {(row["component"], row["apiKey"]): row["name"] for row in messages if row["type"] == kind}


def kraft_record(api_key: int, component: str = "kafka-metadata") -> str | None:
    """Return the name of the record with this key in ``__cluster_metadata``, None if unknown.

    The component ``kafka-storage`` selects ``__remote_log_metadata``, whose keys overlap.
    """
    return _records("metadata").get((component, api_key))


def coordinator_records() -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of all key messages and of all value messages in coordinators' topics."""
    keys, values = (_records(f"coordinator-{part}").values() for part in ("key", "value"))
    return frozenset(keys), frozenset(values)


def coordinator_record(component: str, record_type: int) -> tuple[str, str] | None:
    """Return the names of the key and value messages of a record in a coordinator's topic, None if unknown.

    Args:
        component: ``kafka-group-coordinator`` for ``__consumer_offsets``, ``kafka-transaction-coordinator`` for
            ``__transaction_state``, ``kafka-share-coordinator`` for ``__share_group_state``.
        record_type: The int16 at the start of the record's key.
    """
    key = _records("coordinator-key").get((component, record_type))
    value = _records("coordinator-value").get((component, record_type))
    return (key, value) if key and value else None
