"""Feed recorded traffic of several clients to the inspector process, with one worker and with three.

This runs as a separate process, because workers are forked: `python -m tests.kproxy.live.several_inspectors DIRECTORY`.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

from dissectors.connections.events import Direction
from kproxy.capture import BytesCaptured, FlowEnded, FlowOpened, Reassembler, open_capture
from kproxy.live.inspector_process import inspect
from kproxy.live.options import InspectorOptions
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions
from kproxy.proxy import tap_messages, tap_protocol
from kproxy.proxy.inspected_table import InspectedTable
from kproxy.trace.lines import Detail
from tests.kproxy.capture_results import DATA

CAPTURES = ("kcat-4.3.1", "aiokafka-4.3.1", "kafkajs-4.3.1", "sarama-4.3.1")
START = 1_790_000_000_000_000_000


def recording() -> Iterator[tap_messages.Message]:
    """Yield captures of several clients as if they were recorded at the same time, each with its own broker."""
    messages: list[tap_messages.Message] = []
    for host, name in enumerate(CAPTURES):
        reassembler = Reassembler()
        with open_capture(DATA / "pcap" / f"{name}.pcap.gz") as capture:
            events = [event for packet in capture for event in reassembler.receive(packet)]
        first_at = events[0].at
        for event in events:
            at, number = START + event.at - first_at, 1000 * host + event.flow.id
            if isinstance(event, FlowOpened):
                (_, client), (_, server) = event.flow.endpoints
                endpoints = f"10.0.0.{host}:{client}", f"10.0.{host}.9:{server}", "127.0.0.1:9092"
                messages.append(tap_messages.Open(number, at, *endpoints, tls=False))
            elif isinstance(event, BytesCaptured):
                messages.append(tap_messages.TapData(number, Direction(event.direction), at, event.data))
            elif isinstance(event, FlowEnded):
                messages.append(tap_messages.Close(number, at, "client", "fin", 0, 0))
    yield from sorted(messages, key=lambda message: message.at)


def run_inspector(recorded: bytes, directory: Path, inspectors: int) -> None:
    """Inspect the recording in a child process, which writes its trace to the directory."""
    sender, receiver = socket.socketpair()
    child = os.fork()
    if child == 0:
        sender.close()
        options = InspectorOptions(
            OutputOptions(quiet=True), Selection(), Detail.SUMMARY, directory=directory, workers=inspectors
        )
        inspect(options, receiver, InspectedTable())
    receiver.close()
    with sender:
        sender.sendall(recorded)
    assert os.waitpid(child, 0)[1] == 0


def main(directory: Path) -> None:
    hello = tap_protocol.encode_hello(tap_messages.Hello(START, "node", 1, [], START))
    recorded = hello + b"".join(map(tap_protocol.encode, recording()))
    for inspectors in (1, 3):
        run_inspector(recorded, directory / str(inspectors), inspectors)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
