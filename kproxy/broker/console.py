"""Commands for a running broker, one per line: stop a broker, start it again, move a leader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kproxy.broker.broker import Broker
from kproxy.broker.cluster import BrokerNode
from kproxy.io.stdin import follow_stdin

HELP = "stop BROKER | start BROKER | lead TOPIC PARTITION BROKER | brokers | help"


class InvalidConsoleCommand(ValueError):
    """Raised for an unknown command, broker or partition. The message can be shown to the user as it is."""


async def run_console_command(broker: Broker, line: str) -> str:
    """Run one command; return a sentence that says what was done.

    Raises:
        InvalidConsoleCommand: The command is invalid.
    """
    match line.split():
        case ["stop", number]:
            node = _parse_node_number(broker, number)
            await broker.stop_node(node)
            return f"broker {node} is down"
        case ["start", number]:
            node = _parse_node_number(broker, number)
            await broker.start_node(node)
            return f"broker {node} is up"
        case ["lead", topic, partition, number]:
            node = _parse_node_number(broker, number)
            if not partition.isdecimal() or not broker.has_partition(topic, int(partition)):
                raise InvalidConsoleCommand(f"unknown partition {topic}-{partition}")
            broker.move_leader(topic, int(partition), node)
            return f"broker {node} leads {topic}-{partition}"
        case ["brokers"]:
            nodes = broker.cluster.nodes.values()
            return ", ".join(f"{node.id} {_format_addresses(node)} {'up' if node.up else 'down'}" for node in nodes)
        case ["help" | "?"]:
            return HELP
    raise InvalidConsoleCommand(f"unknown command {line.strip()!r}; commands: {HELP}")


def listen_to_stdin(broker: Broker, report: Callable[[str], None], on_end: Callable[[], None]) -> None:
    """Start running the commands on standard input; call `on_end` at its end."""
    loop = asyncio.get_running_loop()

    async def run_and_report(line: str) -> None:
        try:
            report(await run_console_command(broker, line))
        except (InvalidConsoleCommand, OSError) as error:
            report(str(error))

    follow_stdin(
        lambda line: asyncio.run_coroutine_threadsafe(run_and_report(line), loop),
        lambda: loop.call_soon_threadsafe(on_end),
    )


def _format_addresses(node: BrokerNode) -> str:
    return " ".join(f"{host}:{port}" for host, port in node.addresses.values())


def _parse_node_number(broker: Broker, text: str) -> int:
    if not text.isdecimal() or int(text) not in broker.cluster.nodes:
        raise InvalidConsoleCommand(f"unknown broker {text}; brokers: {', '.join(map(str, broker.cluster.nodes))}")
    return int(text)
