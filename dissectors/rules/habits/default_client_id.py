"""S048: clients that cannot be told apart because they have their library's default client id, or none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dissectors.bounded import BoundedDict
from dissectors.connections.addresses import host_of
from dissectors.connections.events import ResponseReceived
from dissectors.findings import Problem, Severity
from dissectors.limits import Limit
from dissectors.rules import rule
from dissectors.rules.offline import DEFAULT_CLIENT_IDS
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

CONNECTIONS = Limit("connections", 10, "connections", "so many connections to a server have the same default id", 1)

_DEFAULTS: Final = re.compile(DEFAULT_CLIENT_IDS)
_MAX_IDS, _MAX_HOSTS, _MAX_MATCHED = 1_000, 1_000, 100


class _IdUsers:
    """The number of connections with a client id, and their hosts."""

    def __init__(self) -> None:
        self.connections = 0
        self.hosts: BoundedDict[str, None] = BoundedDict(_MAX_HOSTS)


class _UsersById(BoundedDict[tuple[str, str | None], _IdUsers]):
    """The users of each client id, by server and client id."""

    def __init__(self) -> None:
        super().__init__(_MAX_IDS)


class _CountState:
    """Whether a connection has been counted."""

    is_counted = False


@rule(
    "S048",
    severity=Severity.INFO,
    events=(ResponseReceived,),
    apis=("Metadata",),
    only=FrameFlags.FIRST,
    limits=(CONNECTIONS,),
    since="0.1",
    blame="client",
)
def default_client_id(event: ResponseReceived, connection: ConnectionState) -> Iterator[Problem]:
    """Reports clients that use their library's default client id, so that they cannot be distinguished.

    ## Why it matters
    Logs, metrics and quotas of brokers name clients by this id, and so does kproxy: "rdkafka sends too much" helps
    nobody.

    ## Usual cause
    `client.id` is not set. kproxy knows the defaults of Java, librdkafka, Sarama, franz-go, KafkaJS, kafka-python,
    aiokafka, ruby-kafka and kafka-node. A missing id also counts as a default.

    ## Example
    ```story
    rule S048:connections=2
    > as rdkafka Metadata v8 {"topics": []}
    < {}
    2> as rdkafka Metadata v8 {"topics": []}
    2< {}
    ```

    ## Look-alikes
    ```story
    rule S048:connections=2
    > as rdkafka Metadata v8 {"topics": []}
    < {}
    2> as billing Metadata v8 {"topics": []}
    2< {}
    3> as billing Metadata v8 {"topics": []}
    3< {}
    ```

    ## Sources
    https://kafka.apache.org/documentation/#producerconfigs_client.id
    """
    name, count_state, run = connection.client_id, connection.state(_CountState), connection.run
    if count_state.is_counted or (name and not _DEFAULTS.match(name[:_MAX_MATCHED])):
        return
    count_state.is_counted = True
    users = run.state(_UsersById).touch((connection.server, name), _IdUsers)
    users.connections += 1
    users.hosts[host_of(connection.client)] = None
    if users.connections == run.limit(CONNECTIONS):
        hosts = f"{len(users.hosts)} host{'s' * (len(users.hosts) > 1)}"
        id_text = f"client id {name!r}, which is a library's default" if name else "no client id"
        yield Problem(
            f"{users.connections} connections from {hosts} to {connection.server} have {id_text}: broker logs, quotas "
            "and metrics cannot tell them apart",
            hint="set client.id to the name of the service",
            cause=f"{name}",
        )
