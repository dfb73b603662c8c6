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
    newest = not tools.release.startswith("3.")
    at, of = ("--bootstrap-server", bootstrap), ("--topic", topic)
    tools.tool("topics", *at, *of, "--create", "--partitions", "3")
    transactional = ("--transactional-id", f"tx-{topic}", "--transaction-duration-ms", "200")
    batches: list[tuple[str, tuple[str, ...]]] = [("zstd", ()), ("lz4", ()), ("none", transactional)]
    for codec, more in batches:
        sizes = ("--num-records", str(RECORDS), "--record-size", "200", "--throughput", "-1")
        settings = (f"bootstrap.servers={bootstrap}", f"compression.type={codec}")
        tools.tool("producer-perf", *of, *sizes, *more, "--producer-props", *settings)
    produced = RECORDS * len(batches)

    reading = (*of, "--from-beginning", "--max-messages", str(produced), "--timeout-ms", "90000")
    group = f"group-{topic}"
    consumed = _processed(tools.tool("console-consumer", *at, *reading, "--group", group))
    if newest:
        protocol = ("--consumer-property", "group.protocol=consumer")  # KIP-848
        printed = tools.tool("console-consumer", *at, *reading, "--group", f"g848-{topic}", *protocol)
        consumed = min(consumed, _processed(printed))
        consumed = min(consumed, _share(tools, at, topic, produced))
    tools.tool("consumer-perf", *at, *of, "--num-records" if newest else "--messages", str(produced))
    members = _grow_to_two(tools, at, topic, group)
    described = tools.tool("configs", *at, "--describe", "--all", "--entity-type", "topics", "--entity-name", topic)
    tools.tool("topics", *at, *of, "--delete")
    configs = len(re.findall(r"^ +[a-z.]+=", described, re.MULTILINE))
    return {"produced": produced, "consumed": consumed, "members": members, "configs": configs}


def _processed(printed: str) -> int:
    return int(printed.rsplit("Processed a total of ")[1].split()[0])


def _share(tools: Tools, at: tuple[str, str], topic: str, records: int) -> int:
    """What a member of a share group gets (KIP-932)."""
    group = f"share-{topic}"
    entity = ("--entity-type", "groups", "--entity-name", group)
    tools.tool("configs", *at, "--alter", *entity, "--add-config", "share.auto.offset.reset=earliest")
    # The broker applies a config some time after its controller has stored it.
    until("the group begins at the earliest", lambda: "=earliest" in tools.tool("configs", *at, "--describe", *entity))
    limits = ("--max-messages", str(records), "--timeout-ms", "90000")
    return _processed(tools.tool("console-share-consumer", *at, "--topic", topic, "--group", group, *limits))


def _grow_to_two(tools: Tools, at: tuple[str, str], topic: str, group: str) -> int:
    """How many of two consumers of a group have partitions."""

    def members() -> list[int]:
        printed = tools.tool("groups", *at, "--describe", "--group", group, "--members")
        owned = (int(line.split()[4]) for line in printed.splitlines() if line.startswith(group))
        return [each for each in owned if each]

    def sharing(expected: int) -> bool:
        return len(members()) == expected

    with ExitStack() as stack:
        for number in (1, 2):
            consumer = tools.start_tool("console-consumer", *at, "--topic", topic, "--group", group)
            stack.callback(consumer.wait)
            stack.callback(consumer.terminate)
            until(f"{number} members have partitions", functools.partial(sharing, number), seconds=180)
        return len(members())
