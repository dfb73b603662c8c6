"""Stories of conversations that fail although every frame is valid."""

from __future__ import annotations

import json
from textwrap import dedent

from tests.kproxy.captures.deviating_responses import ADVERTISED

_HELLO = f"> ApiVersions v0\n< {json.dumps(ADVERTISED)}\n"
_OLD_HELLO = "> as old-consumer ApiVersions v0\n< %s\n"
_HELLO_2 = f"2> ApiVersions v0\n2< {json.dumps(ADVERTISED)}\n"

_METADATA_REQUEST = '> Metadata v8 {"topics": [{"name": "orders"}]}'


def _metadata(host: str, port: int) -> str:
    """Return the story of a client that asks for the leader of its topic and receives this address."""
    partition = {"leader_id": 1, "leader_epoch": 3, "replica_nodes": [1], "isr_nodes": [1]}
    brokers = [{"node_id": 1, "host": host, "port": port}]
    body = {"brokers": brokers, "controller_id": 1, "topics": [{"name": "orders", "partitions": [partition]}]}
    return f"{_METADATA_REQUEST}\n< {json.dumps(body)}\n+100ms\n"


_NEW_MEMBER = """\
> JoinGroup v3 {"group_id": "billing", "session_timeout_ms": 30000, "rebalance_timeout_ms": 60000,
 "protocol_type": "consumer", "protocols": [{"name": "range", "metadata":
 {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["orders"]}}}]}
< {"generation_id": %d, "protocol_name": "range", "leader": "app-1", "member_id": "app-%d"}
> SyncGroup v2 {"group_id": "billing", "generation_id": %d, "member_id": "app-%d"}
< {"error_code": 27}
+1s
"""

_DENIED = """\
> FindCoordinator v2 {"key": "billing"}
< {"node_id": 1, "host": "10.0.0.1", "port": 9092}
2> OffsetFetch v5 {"group_id": "billing", "topics": [{"name": "orders", "partition_indexes": [0]}]}
2< {"error_code": 16}
+500ms
"""

_EMPTY_FETCH = """\
> Fetch v11 {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 1048576, "session_epoch": -1,
 "topics": [{"topic": "orders", "partitions": [{"fetch_offset": 5, "partition_max_bytes": 1048576}]}]}
< {"responses": [{"topic": "orders", "partitions":
 [{"high_watermark": 9, "last_stable_offset": 9, "log_start_offset": 0, "records": ""}]}]}
+500ms
"""

_CLIENT_HELLO = "16 03 01 00 31 01 00 00 2d 03 03" + " 5a" * 32 + " 00 00 04 13 01 c0 2f 01 00 00 00"

_HTTP_GET = b"GET / HTTP/1.1\r\nHost: kafka-1:9092\r\nAccept: */*\r\n\r\n"

_KAFKA_4 = {"api_keys": [
    {"api_key": 0, "min_version": 0, "max_version": 13}, {"api_key": 1, "min_version": 4, "max_version": 18},
    {"api_key": 2, "min_version": 1, "max_version": 11}, {"api_key": 3, "min_version": 0, "max_version": 13},
    {"api_key": 18, "min_version": 0, "max_version": 4},
]}  # fmt: skip

_OLD_FETCH = """\
> as old-consumer Fetch v2 {"replica_id": -1, "max_wait_ms": 500, "min_bytes": 1,
 "topics": [{"topic": "orders", "partitions": [{"fetch_offset": 5, "partition_max_bytes": 1048576}]}]}
"""

BEHAVIOUR = {
    "advertised-address-not-dialled":
        "open 1 client=10.0.0.9:50001 server=10.0.0.1:29092\n" + _HELLO + 3 * _metadata("localhost", 9092),
    "metadata-retry-loop": "open 1\n" + _HELLO + 10 * _metadata("kafka-1.example.com", 9092),
    "join-group-never-synced": "open 1\n" + _HELLO + dedent("""\
        > JoinGroup v5 {"group_id": "billing", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000,
         "protocol_type": "consumer", "protocols": [{"name": "range", "metadata":
         {"type": "ConsumerProtocolSubscription", "version": 0, "data": {"topics": ["orders"]}}}]}
        < {"generation_id": 1, "protocol_name": "range", "leader": "app-1", "member_id": "app-1"}
        +61s
        close by=client how=fin
        """),
    "member-ids-that-change": "open 1\n" + _HELLO + "".join(_NEW_MEMBER % (n, n, n, n) for n in range(1, 5)),
    "coordinator-that-denies-being-one":
        "open 1 client=10.0.0.9:50001\nopen 2 client=10.0.0.9:50002\n" + _HELLO + _HELLO_2 + 5 * _DENIED,
    "fetches-empty-below-high-watermark": "open 1\n" + _HELLO + 5 * _EMPTY_FETCH,
    "tls-on-kafkas-port": f"open 1\n> hex {_CLIENT_HELLO}\nclose by=server how=fin",
    "http-on-kafkas-port": f"open 1\n> hex {_HTTP_GET.hex(' ')}\nclose by=server how=fin",
    "sasl-plain-in-the-clear": "open 1\n" + _HELLO + dedent("""\
        > SaslHandshake v1 {"mechanism": "PLAIN"}
        < {"mechanisms": ["PLAIN"]}
        > SaslAuthenticate v1 {"auth_bytes": "00 61 6c 69 63 65 00 6f 70 65 6e"}    # alice, open
        < {"session_lifetime_ms": 0}
        """),
    "old-client-at-kafka-4":
        "open 1\n" + _OLD_HELLO % json.dumps(_KAFKA_4) + _OLD_FETCH + "close by=server how=fin",
    "old-client-before-kafka-4": "open 1\n" + _OLD_HELLO % json.dumps(ADVERTISED) + _OLD_FETCH + dedent("""\
        < {"responses": [{"topic": "orders", "partitions": [{"high_watermark": 5, "records": ""}]}]}
        """),
}  # fmt: skip
