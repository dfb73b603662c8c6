"""The loop of the inspector process lets deadlines pass only after it has read all pending data."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.live.inspector_process import _InspectorLoop
from kproxy.proxy.inspector_activity import InspectorActivity


class _Sink:
    def __init__(self) -> None:
        self.idle_count = 0

    def on_idle(self) -> None:
        self.idle_count += 1

    def tick(self) -> None:
        pass

    def metrics_text(self) -> None:
        pass


@pytest.mark.parametrize(
    ("pending_data", "expected_idles"), [(b"", 1), (b"what arrived while this process was stopped", 0)]
)
def test_stopped_process_reads_pending_data_before_deadlines_pass(pending_data: bytes, expected_idles: int) -> None:
    receiver, sender = socket.socketpair()
    with receiver, sender:
        sender.sendall(pending_data)
        table: Any = SimpleNamespace(activity=InspectorActivity())
        options: Any = None
        loop = _InspectorLoop(options, receiver, table)
        sink: Any = _Sink()
        turns = iter(range(1))

        def select(_timeout: float) -> list[Any]:
            """Return without events, as select() does after SIGCONT."""
            if next(turns, None) is None:
                loop._ended = True
            return []

        selector: Any = SimpleNamespace(select=select)
        loop._selector.close()
        loop._selector, loop._sink, loop._received_at = selector, sink, 0.0
        loop._turn()
        assert sink.idle_count == expected_idles
