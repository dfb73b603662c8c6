"""The loop of the inspector's process lets deadlines pass only if nothing has arrived that it has not read."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from kproxy.live.inspector_process import _InspectorLoop
from kproxy.proxy.inspector_activity import InspectorActivity


class _Sink:
    def __init__(self) -> None:
        self.idled = 0

    def idle(self) -> None:
        self.idled += 1

    def tick(self) -> None:
        pass

    def metrics_text(self) -> None:
        pass


@pytest.mark.parametrize(("arrived", "idled"), [(b"", 1), (b"what arrived while this process was stopped", 0)])
def test_a_process_that_was_stopped_reads_before_deadlines_pass(arrived: bytes, idled: int) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(arrived)
        table: Any = SimpleNamespace(activity=InspectorActivity())
        options: Any = None
        loop = _InspectorLoop(options, ours, table)
        sink: Any = _Sink()
        turns = iter(range(1))

        def select(_timeout: float) -> list[Any]:
            """The wait is over, and nothing is reported: so it is after SIGCONT."""
            if next(turns, None) is None:
                loop._ended = True
            return []

        selector: Any = SimpleNamespace(select=select)
        loop._selector.close()
        loop._selector, loop._sink, loop._received_at = selector, sink, 0.0
        loop._turn()
        assert sink.idled == idled
