"""K004: secrets that kproxy withholds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.messages import secret_fields
from dissectors.rules import rule
from dissectors.trackers.state import ConnectionState


@dataclass(slots=True)
class _ReportedApis:
    """The APIs that were reported. Few APIs carry secrets, so the set stays small."""

    apis: set[str] = field(default_factory=set)


@rule(
    "K004",
    severity=Severity.INFO,
    events=(RequestReceived, ResponseReceived),
    apis=secret_fields.APIS,
    broken=True,
    since="0.1",
)
def redacted(event: RequestReceived | ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports, once per API and run, that kproxy withheld a secret from its output and trace.

    ## Why it matters
    Traces may be shared, so passwords, tokens and their hashes are never in them, at any level of detail. The
    placeholder, ``(redacted, 32 bytes)``, is not what was on the wire. A message that may hold a secret and cannot be
    fully decoded is withheld entirely.

    ## Usual cause
    A login (SaslAuthenticate), delegation tokens, SCRAM credentials, or configs that Kafka marks as sensitive.

    ## Example
    ```story
    > SaslAuthenticate v2 {"auth_bytes": "00 75 73 65 72 00 70 77"}
    ```

    ## Look-alikes
    ```story
    > CreateTopics v7 {"topics": [{"name": "a", "num_partitions": 1, "replication_factor": 1,
      "configs": [{"name": "cleanup.policy", "value": "compact"}]}]}    # not a secret
    > SaslHandshake v1 {"mechanism": "PLAIN"}                             # only the name of a mechanism
    ```

    ## Sources
    https://github.com/kroxylicious/kroxylicious
    https://kafka.apache.org/documentation/#security_sasl
    """
    message = event.message
    if message is None or event.damaged or message.api in (reported := connection.run.state(_ReportedApis)).apis:
        return
    if secret_fields.holds_secret(message):
        reported.apis.add(message.api)
        yield Problem(
            f"{message.api} carries secrets: kproxy shows and writes only their length",
            hint="look for (redacted, N bytes) in the body; the bytes were relayed unchanged",
        )
