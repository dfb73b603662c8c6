"""SIGKILL in the middle of a load: what had gone through is in the trace."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.peers.forwarder import Stream
from tests.peers.lab import Lab
from tests.peers.processes import until
from tests.peers.proxy import Chain, Proxy
from tests.peers.trace import read_lines, trace_files, traced_frames

pytestmark = pytest.mark.peers

#: Bytes to relay before the proxy dies.
LOAD = 2_000_000
#: Seconds within which a relayed frame is in the trace, on a busy machine.
TAIL = 0.5


@pytest.mark.parametrize("kill", [Proxy.kill, Proxy.kill_all], ids=["relay", "relay and inspector"])
def test_a_killed_proxy_leaves_a_trace_of_what_went_through(
    lab: Lab, tmp_path: Path, kill: Callable[[Proxy], None]
) -> None:
    with lab.chain("PLAIN", tmp_path, "-q") as chain:
        load = lab.kafka.start_tool(
            "producer-perf", "--topic", f"killed-{kill.__name__}", "--num-records", "10000000", "--record-size", "200",
            "--throughput", "5000", "--producer-props", f"bootstrap.servers={chain.bootstrap}", "linger.ms=0",
        )  # fmt: skip
        until("enough went through", lambda: chain.back.relayed() > LOAD)
        killed_at = time.monotonic()
        kill(chain.proxy)
        load.kill()
        load.wait()
        if kill is Proxy.kill:  # the inspector gives the file its name when it is done
            until(
                "the trace is whole", lambda: not any(path.suffix == ".part" for path in trace_files(chain.proxy.trace))
            )
        lines = read_lines(chain.proxy.trace, torn_end=kill is Proxy.kill_all)
        assert [line for line in lines if line["kind"] == "gap"] == []
        until("the recorders are done", lambda: chain.front.all_closed() and chain.back.all_closed())
        assert_covers_all_but_the_tail(chain, killed_at)


def assert_covers_all_but_the_tail(chain: Chain, killed_at: float) -> None:
    covered = 0
    for connection, lines in chain.pairs():
        for kind, stream in (("request", connection.requests), ("response", connection.responses)):
            traced, passed = traced_frames(lines, kind), stream.frames()
            before = frames_before(killed_at - TAIL, stream)
            assert traced == passed[: len(traced)]
            assert len(traced) >= before
            covered += before
    assert covered > 100


def frames_before(moment: float, stream: Stream) -> int:
    """How many frames had gone through whole at that moment."""
    received = stream.received_before(moment)
    return sum(offset + size <= received for offset, size in stream.frames())
