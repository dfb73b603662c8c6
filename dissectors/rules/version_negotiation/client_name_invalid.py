"""V016: a client software name that brokers refuse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages.locate import locate
from dissectors.rules import rule
from dissectors.schemas.codes import Error
from dissectors.trackers.state import ConnectionState

INVALID_REQUEST = Error.INVALID_REQUEST
SHOWN = 40

_HINT = "use only letters, digits, '-' and '.', starting and ending with a letter or digit"
_is_valid = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?").fullmatch


@rule(
    "V016",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("ApiVersions",),
    since="0.1",
    blame="client",
)
def client_name_invalid(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the client software name and version in ApiVersions have the format that KIP-511 requires.

    They may contain only letters, digits, ``-`` and ``.``, must begin and end with a letter or digit, and must not be
    empty. The request alone is reported as info, because not every server checks it; an INVALID_REQUEST response makes
    it a warning.

    ## Why it matters
    Kafka refuses the ApiVersions request, the first on every connection, so the client never gets further.

    ## Usual cause
    A name with a space, an underscore or a ``+``, or an empty version because the build did not set it.

    ## Example
    ```story
    > ApiVersions v3 {"client_software_name": "RP Console", "client_software_version": "1.0"}
    ```
    ```story
    > ApiVersions v3 {"client_software_name": "sarama", "client_software_version": ""}
    < {"error_code": 42}
    ```

    ## Look-alikes
    ```story
    > ApiVersions v3 {"client_software_name": "apache-kafka-java", "client_software_version": "4.0.0-rc.1"}
    < {"api_keys": [{"api_key": 18, "max_version": 4}]}
    2> ApiVersions v0 {}
    2< {"api_keys": [{"api_key": 18, "max_version": 4}]}
    ```

    ## Sources
    https://cwiki.apache.org/confluence/display/KAFKA/KIP-511%3A+Collect+and+Expose+Client%27s+Name+and+Version+in+the+Brokers
    https://github.com/apache/kafka/pull/7381
    https://github.com/IBM/sarama/pull/2291
    """
    if isinstance(event, RequestReceived):
        for field, shown_value in _invalid_fields(event.message.body):
            message = f"Kafka answers INVALID_REQUEST to the {field} {shown_value}"
            yield Problem(message, **locate(event.message, field), hint=_HINT, severity=Severity.INFO)
    elif event.message is not None and event.message.body["error_code"] == INVALID_REQUEST:
        for field, shown_value in _invalid_fields(event.request_body or {}):
            message = f"ApiVersions is refused with INVALID_REQUEST for its {field} {shown_value}"
            yield Problem(message, hint=_HINT, cause=field)


def _invalid_fields(request_body: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the invalid fields and their values, shortened to `SHOWN` characters."""
    for field in ("client_software_name", "client_software_version"):
        value = request_body.get(field)
        if value is not None and not _is_valid(value):
            yield field, repr(value[:SHOWN]) + ("..." if len(value) > SHOWN else "")
