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

_HINT = "use letters, digits, '-' and '.' only, beginning and ending with a letter or digit"
_VALID = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?").fullmatch


@rule(
    "V016",
    severity=Severity.WARNING,
    events=(RequestReceived, ResponseReceived),
    apis=("ApiVersions",),
    since="0.1",
    blame="client",
)
def client_name_invalid(event: RequestReceived | ResponseReceived, _: ConnectionState) -> Iterator[Problem]:
    """Checks that the client software name and version in ApiVersions have the form that KIP-511 asks for.

    Letters, digits, ``-`` and ``.``, with a letter or digit first and last; not empty. The request is for information,
    as not every server looks; a server that answers INVALID_REQUEST makes it a warning.

    ## Why it matters
    Kafka refuses the ApiVersions request, which is the first of every connection: the client never gets further.

    ## Usual cause
    A name with a space, an underscore or a ``+`` in it, or an empty one because the build did not set its version.

    ## Example
    ```story
    > ApiVersions v3 {"client_software_name": "RP Console", "client_software_version": "1.0"}
    ```
    ```story
    > ApiVersions v3 {"client_software_name": "sarama", "client_software_version": ""}
    < {"error_code": 42}
    ```

    ## Looks alike
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
        for field, shown in _faults(event.message.body):
            message = f"Kafka answers INVALID_REQUEST to the {field} {shown}"
            yield Problem(message, **locate(event.message, field), hint=_HINT, severity=Severity.INFO)
    elif event.message is not None and event.message.body["error_code"] == INVALID_REQUEST:
        for field, shown in _faults(event.asked or {}):
            message = f"ApiVersions is refused with INVALID_REQUEST for its {field} {shown}"
            yield Problem(message, hint=_HINT, cause=field)


def _faults(asked: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The fields that are not as they must be, and what they say."""
    for field in ("client_software_name", "client_software_version"):
        value = asked.get(field)
        if value is not None and not _VALID(value):
            yield field, repr(value[:SHOWN]) + ("..." if len(value) > SHOWN else "")
