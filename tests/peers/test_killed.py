"""After SIGKILL under load, the trace has all frames that had been relayed before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.peers.forwarder import Stream
from tests.peers.lab import Lab
from tests.peers.processes import until
from tests.peers.proxy import Chain, Proxy
from tests.peers.trace import read_lines, trace_files, traced_frames

pytestmark = pytest.mark.peers

#: The numbers of bytes and of frames to relay before the proxy is killed.
LOAD, FRAMES = 2_000_000, 100


@pytest.mark.parametrize("kill", [Proxy.kill, Proxy.kill_all], ids=["relay", "relay and inspector"])
def test_trace_of_a_killed_proxy_has_the_relayed_frames(
    lab: Lab, tmp_path: Path, kill: Callable[[Proxy], None]
) -> None:
    with lab.chain("PLAIN", tmp_path, "-q") as chain:
        load = lab.kafka.start_tool(
            "producer-perf", "--topic", f"killed-{kill.__name__}", "--num-records", "10000000", "--record-size", "200",
            "--throughput", "5000", "--producer-props", f"bootstrap.servers={chain.bootstrap}", "linger.ms=0",
        )  # fmt: skip
        until(
            "enough went through",
            lambda: chain.back.relayed() > LOAD and relayed_frames(chain, time.monotonic()) > FRAMES,
        )
        moment = time.monotonic()
        until("the trace has it while more comes", lambda: is_traced(chain, moment), every=0.1)
        kill(chain.proxy)
        load.kill()
        load.wait()
        if kill is Proxy.kill:  # the inspector renames the file when it is complete
            until(
                "the trace is whole", lambda: not any(path.suffix == ".part" for path in trace_files(chain.proxy.trace))
            )
        lines = read_lines(chain.proxy.trace, torn_end=kill is Proxy.kill_all)
        assert [line for line in lines if line["kind"] == "gap"] == []
        until("the recorders are done", lambda: chain.front.all_closed() and chain.back.all_closed())
        assert is_traced(chain, moment)
        assert [traced for traced, stream in direction_pairs(chain) if traced != stream.frames()[: len(traced)]] == []


def direction_pairs(chain: Chain) -> Iterator[tuple[list[tuple[int, int]], Stream]]:
    """Yield, for each direction of each connection, its frames in the trace and the relayed stream."""
    for connection, lines in chain.pairs(torn_end=True):
        yield traced_frames(lines, "request"), connection.requests
        yield traced_frames(lines, "response"), connection.responses


def is_traced(chain: Chain, moment: float) -> bool:
    """Return whether the trace has all frames that were relayed before `moment`."""
    return all(len(traced) >= frames_before(moment, stream) for traced, stream in direction_pairs(chain))


def relayed_frames(chain: Chain, moment: float) -> int:
    """Return the number of frames that were relayed before `moment`."""
    streams = [
        stream for connection in chain.front.connections for stream in (connection.requests, connection.responses)
    ]
    return sum(frames_before(moment, stream) for stream in streams)


def frames_before(moment: float, stream: Stream) -> int:
    """Return the number of complete frames in a stream before `moment`."""
    received = stream.received_before(moment)
    return sum(offset + size <= received for offset, size in stream.frames())
