"""Java: Kafka's own command-line tools produce, consume with every group protocol of their release, and administer."""

from __future__ import annotations

import functools
import re
from contextlib import ExitStack

from tests.peers.kafka import Tools
from tests.peers.processes import until

RECORDS = 1000


def run(tools: Tools, bootstrap: str, topic: str) -> dict[str, int]:
    """See `tests.peers.clients.run`."""
    has_new_protocols = not tools.release.startswith("3.")
    connection_options, topic_options = ("--bootstrap-server", bootstrap), ("--topic", topic)
    tools.tool("topics", *connection_options, *topic_options, "--create", "--partitions", "3")
    transactional = ("--transactional-id", f"tx-{topic}", "--transaction-duration-ms", "200")
    batches: list[tuple[str, tuple[str, ...]]] = [("zstd", ()), ("lz4", ()), ("none", transactional)]
    for codec, further_options in batches:
        sizes = ("--num-records", str(RECORDS), "--record-size", "200", "--throughput", "-1")
        settings = (f"bootstrap.servers={bootstrap}", f"compression.type={codec}")
        tools.tool("producer-perf", *topic_options, *sizes, *further_options, "--producer-props", *settings)
    produced = RECORDS * len(batches)

    reading = (*topic_options, "--from-beginning", "--max-messages", str(produced), "--timeout-ms", "90000")
    group = f"group-{topic}"
    consumed = _processed_count(tools.tool("console-consumer", *connection_options, *reading, "--group", group))
    if has_new_protocols:
        protocol = ("--consumer-property", "group.protocol=consumer")  # KIP-848
        printed = tools.tool("console-consumer", *connection_options, *reading, "--group", f"g848-{topic}", *protocol)
        consumed = min(consumed, _processed_count(printed))
        consumed = min(consumed, _consume_in_share_group(tools, connection_options, topic, produced))
    tools.tool(
        "consumer-perf",
        *connection_options,
        *topic_options,
        "--num-records" if has_new_protocols else "--messages",
        str(produced),
    )
    members = _grow_to_two(tools, connection_options, topic, group)
    described = tools.tool(
        "configs", *connection_options, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic
    )
    tools.tool("topics", *connection_options, *topic_options, "--delete")
    configs = len(re.findall(r"^ +[a-z.]+=", described, re.MULTILINE))
    return {"produced": produced, "consumed": consumed, "members": members, "configs": configs}


def _processed_count(printed: str) -> int:
    return int(printed.rsplit("Processed a total of ")[1].split()[0])


def _consume_in_share_group(tools: Tools, connection_options: tuple[str, str], topic: str, records: int) -> int:
    """Consume in a share group (KIP-932); return the number of records."""
    group = f"share-{topic}"
    entity = ("--entity-type", "groups", "--entity-name", group)
    tools.tool("configs", *connection_options, "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest")
    # The broker applies a config some time after the controller has stored it.
    until(
        "the group begins at the earliest",
        lambda: "=earliest" in tools.tool("configs", *connection_options, "--describe", *entity),
    )
    limits = ("--max-messages", str(records), "--timeout-ms", "90000")
    return _processed_count(
        tools.tool("console-share-consumer", *connection_options, "--topic", topic, "--group", group, *limits)
    )


def _grow_to_two(tools: Tools, connection_options: tuple[str, str], topic: str, group: str) -> int:
    """Start two consumers in a group; return how many have partitions."""

    def members() -> list[int]:
        printed = tools.tool("groups", *connection_options, "--describe", "--group", group, "--members")
        owned = (int(line.split()[4]) for line in printed.splitlines() if line.startswith(group))
        return [partitions for partitions in owned if partitions]

    def are_sharing(expected: int) -> bool:
        return len(members()) == expected

    with ExitStack() as stack:
        for number in (1, 2):
            consumer = tools.start_tool("console-consumer", *connection_options, "--topic", topic, "--group", group)
            stack.callback(consumer.wait)
            stack.callback(consumer.terminate)
            until(f"{number} members have partitions", functools.partial(are_sharing, number), timeout=180)
        return len(members())
