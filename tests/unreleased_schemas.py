"""Schemas on Kafka's trunk that are not in any release yet, for tests of request header v3 (KIP-1313).

Sources: apache/kafka#23317 (``headerVersions`` in each schema), #23544 (OffsetDelete v1 is the first request with
header v3; the client instance id is a tagged uuid, left out if it is zero) and the trunk's class
GetTelemetrySubscriptionsRequest (from v1 on, the id is in the header and not in the body). The tag is 0 because Kafka's
generator requires tags without gaps. That OffsetDelete v1 is flexible is an assumption: no source says so.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dissectors import schemas
from dissectors.diagnosis import proposals
from dissectors.messages import message
from dissectors.schemas.importer.data import Release, dump, merge_releases
from dissectors.wire import layout

#: The newest known release, to which the schemas are added; a separate release would lack all other APIs.
RELEASE = "4.4.0"
_HEADER = """{ // Version 3 introduces ClientInstanceId (KIP-1313).
  "type": "header", "name": "RequestHeader", "validVersions": "1-3", "flexibleVersions": "2+", "fields": [
    { "name": "RequestApiKey", "type": "int16", "versions": "0+" },
    { "name": "RequestApiVersion", "type": "int16", "versions": "0+" },
    { "name": "CorrelationId", "type": "int32", "versions": "0+" },
    { "name": "ClientId", "type": "string", "versions": "1+", "nullableVersions": "1+", "flexibleVersions": "none" },
    { "name": "ClientInstanceId", "type": "uuid", "versions": "3+", "taggedVersions": "3+", "tag": 0 }
]}"""


def _definition(name: str, **changes: Any) -> str:
    """Return a message definition from the current schemas, with changes."""
    definition = dict(schemas.message(name))
    newest = [*definition["served"].values()][-1]
    return json.dumps({**definition, "validVersions": newest, "flexibleVersions": definition["flexible"], **changes})


def _release() -> Release:
    telemetry = schemas.message("GetTelemetrySubscriptionsRequest")["fields"]
    definitions = [
        _HEADER,
        _definition("OffsetDeleteRequest", validVersions="0-1", flexibleVersions="1+",
                    headerVersions={"0": "1", "1+": "3"}),
        _definition("OffsetDeleteResponse", validVersions="0-1", flexibleVersions="1+",
                    headerVersions={"0": "0", "1+": "1"}),
        _definition("GetTelemetrySubscriptionsRequest", validVersions="0-1", headerVersions={"0": "2", "1+": "3"},
                    fields=[{**field, "versions": "0"} for field in telemetry]),
        _definition("GetTelemetrySubscriptionsResponse", validVersions="0-1", headerVersions={"0+": "1"}),
    ]  # fmt: skip
    served = {"min": 0, "max": 1, "stable": 1, "listeners": ["broker"]}
    apis = [
        {"key": 47, "name": "OffsetDelete", **served, "headers": {"0": [1, 0], "1": [3, 1]}},
        {"key": 71, "name": "GetTelemetrySubscriptions", **served, "headers": {"0": [2, 1], "1": [3, 1]}},
    ]
    facts = {"apis": apis, "errors": [], "enums": {}}
    return Release(RELEASE, [("kafka-clients", text) for text in definitions], facts)


@contextmanager
def header_v3() -> Iterator[None]:
    """Add these schemas to `dissectors.schemas`, as if a release with them had been imported."""
    data, notes = merge_releases([_release()])
    assert notes == []
    lines, apis = schemas._lines(), schemas._apis()
    old_lines = {name: lines[name] for name in data.messages}
    old_apis = {key: apis[key] for key in data.apis}
    served = {name: schemas.message(name)["served"] for name in data.messages}
    lines |= {
        name: dump({**message_facts, "served": served[name]}).encode() for name, message_facts in data.messages.items()
    }
    apis |= {key: schemas._api(api) for key, api in data.apis.items()}
    _clear_caches()
    try:
        yield
    finally:
        lines |= old_lines
        apis |= old_apis
        _clear_caches()


def _clear_caches() -> None:
    for cached_function in (schemas._message, schemas._apis_by_name, layout.layout, proposals._header_proposals,
                            proposals._body_proposals,
                   proposals._other_api_proposals):  # fmt: skip
        cached_function.cache_clear()
    message._api_layouts_cache.clear()
