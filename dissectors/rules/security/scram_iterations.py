"""X019: a SCRAM password that is hashed too few times, or too often."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.connections.events import ResponseReceived, TokenReceived
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.sasl_messages import is_from_client, token_location
from dissectors.sasl.messages import ScramServerFirst
from dissectors.trackers.authentication import Authentication
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import Trigger

#: The minimum in Kafka's ScramMechanism and RFC 7677, and the maximum that librdkafka accepts.
_MIN_ITERATIONS, _MAX_ITERATIONS = 4096, 1_000_000


@rule(
    "X019",
    severity=Severity.WARNING,
    events=(ResponseReceived,),
    apis=("SaslAuthenticate",),
    also=(Trigger((TokenReceived,)),),
    needs=(Authentication,),
    since="0.1",
    blame="broker",
)
def scram_iterations(event: ResponseReceived | TokenReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Checks that the iteration count of a SCRAM login is at least 4096 and at most 1,000,000.

    ## Why it matters
    The count is how often the password is hashed: with a low one, whoever records a login can guess the password
    offline. Java clients refuse a count below 4096 and close the connection. librdkafka refuses one above 1,000,000,
    and with a high one every login costs the client seconds of CPU time.

    ## Usual cause
    A gateway that stores its users with a count of its own, often 1 in tests. Kafka itself only accepts 4096 to 16384.

    ## Example
    The server answers with i=1:
    ```story
    > SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
    < {"mechanisms": ["SCRAM-SHA-256"]}
    > SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 6e 3d 75 2c 72 3d 61 62"}
    < {"auth_bytes": "72 3d 61 62 63 2c 73 3d 51 51 3d 3d 2c 69 3d 31"}
    ```

    ## Look-alikes
    i=4096:
    ```story
    > SaslHandshake v1 {"mechanism": "SCRAM-SHA-256"}
    < {"mechanisms": ["SCRAM-SHA-256"]}
    > SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 6e 3d 75 2c 72 3d 61 62"}
    < {"auth_bytes": "72 3d 61 62 63 2c 73 3d 51 51 3d 3d 2c 69 3d 34 30 39 36"}
    ```

    ## Sources
    https://www.rfc-editor.org/rfc/rfc7677#section-4
    https://github.com/apache/kafka/blob/trunk/clients/src/main/java/org/apache/kafka/common/security/scram/internals/ScramMechanism.java
    https://github.com/confluentinc/librdkafka/blob/master/src/rdkafka_sasl_scram.c
    """
    authentication = connection.state(Authentication)
    message = authentication.server
    if is_from_client(event) or authentication.tokens != 1 or not isinstance(message, ScramServerFirst):
        return
    count = message.iterations
    if count is None or _MIN_ITERATIONS <= count <= _MAX_ITERATIONS:
        return
    quantity = "few" if count < _MIN_ITERATIONS else "many"
    yield Problem(
        f"server {connection.server} asks for {count} iterations in a {authentication.mechanism} login: too {quantity}",
        hint="store the user's credentials again with 4096 to 16384 iterations, e.g. with kafka-configs",
        expected=f"{_MIN_ITERATIONS} to {_MAX_ITERATIONS}",
        got=str(count),
        cause=authentication.mechanism,
        **token_location(event),
    )
