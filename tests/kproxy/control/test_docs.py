"""A real proxy answers the sample session in docs/control.md as the page shows."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from kproxy.control.backlog import BACKLOG_BYTES, MAX_UNANSWERED
from kproxy.control.commands import COMMANDS, MAX_IN_FLIGHT
from kproxy.control.paths import find
from kproxy.control.protocol import MAX_REQUEST_BYTES, MAX_VIEWERS, PROTOCOL
from kproxy.control.viewer import BEHIND, BUFFER_BYTES
from tests.kproxy.cli.test_relay import running
from tests.kproxy.control.raw import RawViewer
from tests.kproxy.frames import request

PAGE = (Path(__file__).parents[3] / "docs" / "control.md").read_text()
JOIN = {"group_id": "g", "session_timeout_ms": 1000, "rebalance_timeout_ms": 1000, "protocol_type": "consumer"}


def shape(value: Any) -> Any:
    """Return the structure of a value: the names in it, each with the type of its value."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(element) for element in value]
    return "text or null" if value is None or isinstance(value, str) else type(value).__name__


@pytest.mark.slow
def test_session_on_the_page_matches_a_real_proxy(tmp_path: Path) -> None:
    [session] = re.findall(r"```transcript\n(.*?)```", PAGE, re.DOTALL)
    with socket.create_server(("127.0.0.1", 0)) as silent_broker:
        upstream = f"127.0.0.1:{silent_broker.getsockname()[1]}"
        with (
            running(tmp_path, "--upstream", upstream, "-q") as proxy,
            proxy.connect() as client,
            RawViewer(find(str(proxy.port)).path) as viewer,
        ):
            client.sendall(request("JoinGroup", 9, JOIN, correlation_id=5, client_id="shop"))
            with RawViewer(find(str(proxy.port)).path) as watcher:
                watcher.read_line()
                while (
                    not (connections := watcher.request(id=1, do="connections")["connections"])
                    or not connections[0]["in_flight"]
                ):
                    pass
            for row in session.splitlines():
                direction, _, message = row.partition(" ")
                if direction == ">":
                    viewer.socket.sendall(message.encode() + b"\n")
                    continue
                line = viewer.read_line()
                if "..." in message:
                    for name, value in re.findall(r'"(kind|frame)":"(\w+)', message):
                        assert line[name].startswith(value[:3])
                    continue
                assert shape(line) == shape(json.loads(message)), message
                if "error" in line:
                    assert line == json.loads(message)
            assert proxy.process.wait(10) == 0


def test_page_lists_the_limits_and_commands_of_the_code() -> None:
    page_text = " ".join(PAGE.split())
    assert f"## The protocol, version {PROTOCOL}" in page_text
    assert f"At most {MAX_VIEWERS} viewers" in page_text
    assert f"{MAX_REQUEST_BYTES >> 10} KiB at most" in page_text
    assert f"the {MAX_IN_FLIGHT} oldest" in page_text
    assert f"the {MAX_UNANSWERED:,} oldest" in page_text
    assert f"the last {BACKLOG_BYTES >> 20} MiB of lines" in page_text
    assert f"Up to {BUFFER_BYTES >> 20} MiB wait" in page_text
    assert f'"{BEHIND}"' in page_text
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == ["do", *COMMANDS]
