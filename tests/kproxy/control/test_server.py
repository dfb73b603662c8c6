"""The control server runs in the test process, for cases that are rare with a real proxy."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dissectors.connections.events import Direction
from kproxy.control import commands
from kproxy.control import server as server_module
from kproxy.control.control_socket import open_socket
from kproxy.control.protocol import Greeting, Listening
from kproxy.control.server import ControlServer
from kproxy.control.watch_state import WorkerLost
from kproxy.inspection.inspector import Inspector
from kproxy.trace.encoding import as_mapping
from kproxy.trace.lines import CloseLine, FindingEntry, RequestLine
from kproxy.trace.shared_line import SharedLine
from kproxy.trace.timestamps import timestamp
from tests.kproxy.browse.sessions import SECOND
from tests.kproxy.control.raw import RawViewer
from tests.kproxy.control.test_paths import GREETING
from tests.kproxy.frames import request

COMMON_FIELDS: dict[str, Any] = {
    "v": 1, "ts": "2023-11-14T22:13:20.000000Z", "connection_id": "web-1-77-1", "client": "c:1", "server": "s:1"
}  # fmt: skip
CLOSE = CloseLine(**COMMON_FIELDS)
REQUEST = RequestLine(size=4, offset=0, **COMMON_FIELDS)


class ServerLoop:
    """A control server and its event loop."""

    def __init__(self, path: Path) -> None:
        self.selector = selectors.DefaultSelector()
        self.inspector = Inspector("web-1-77")
        self.control = open_socket(path)
        greeting = msgspec.convert(GREETING, Greeting)
        self.server = ControlServer(self.control, self.selector, greeting, self.inspector, relay_ended=lambda: True)

    def run_pending(self) -> None:
        while ready := self.selector.select(0):
            for key, events in ready:
                key.data(events)

    def connect_viewer(self) -> RawViewer:
        viewer = RawViewer(self.control.path)
        self.run_pending()
        return viewer

    def request(self, viewer: RawViewer, **request: Any) -> dict[str, Any]:
        viewer.send(**request)
        self.run_pending()
        return viewer.read_line()


@pytest.fixture
def loop(sockets: Path) -> Iterator[ServerLoop]:
    loop = ServerLoop(sockets.parent / "server.sock")
    yield loop
    loop.server.close()
    loop.selector.close()


def test_frames_are_built_only_while_a_viewer_requests_them(loop: ServerLoop) -> None:
    with loop.connect_viewer() as first, loop.connect_viewer() as second:
        assert first.read_line()["pid"] == second.read_line()["pid"] == 4711
        assert not loop.inspector.frames
        loop.request(first, do="watch", frames=True)
        loop.request(second, do="watch", frames=True)
        loop.request(first, do="watch")
        assert loop.inspector.frames
        loop.request(second, do="unwatch")
        assert not loop.inspector.frames
        loop.request(second, do="watch", frames=True)
        assert loop.inspector.frames
    loop.run_pending()
    loop.server.tick()
    assert not loop.inspector.frames


def test_viewers_that_do_not_watch_receive_no_lines(loop: ServerLoop) -> None:
    with loop.connect_viewer() as viewer:
        viewer.read_line()
        loop.server.publish(SharedLine(CLOSE))
        loop.server.flush()
        assert loop.request(viewer, id=1, do="connections") == {"id": 1, "connections": []}


def test_most_urgent_causes_are_listed_first(loop: ServerLoop) -> None:
    for severity, code in (("warning", "L010"), ("error", "L005")):
        finding_entry = FindingEntry(code, "a-rule", severity, "a sentence", hint="change it")
        loop.server.causes.add(msgspec.structs.replace(REQUEST, findings=[finding_entry]))
    with loop.connect_viewer() as viewer:
        viewer.read_line()
        reply = loop.request(viewer, id=1, do="causes")
        assert (reply["id"], reply["found"]) == (1, 2)
        listed = [(cause["code"], cause["hint"], cause["count"], cause["connections"]) for cause in reply["causes"]]
        assert listed == [("L005", "change it", 1, 1), ("L010", "change it", 1, 1)]
        assert [cause["code"] for cause in loop.request(viewer, do="causes", most=1)["causes"]] == ["L005"]
        assert "most" in loop.request(viewer, do="causes", most=-1)["error"]


def test_viewers_receive_only_the_columns_that_they_request(loop: ServerLoop) -> None:
    body = {"value": {"format": "json", "data": {"key": 1}}}
    full_line = msgspec.structs.replace(REQUEST, body=body, frame="QQ==")
    for options in ({}, {"payloads": True}, {"frames": True}, {"frames": True, "payloads": True}):
        with loop.connect_viewer() as viewer:
            viewer.read_line()
            loop.request(viewer, do="watch", **options)
            for line in (full_line, CLOSE):
                loop.server.publish(SharedLine(line))
            loop.server.flush()
            expected = as_mapping(REQUEST)
            expected |= {"body": body} if "payloads" in options else {}
            expected |= {"frame": "QQ=="} if "frames" in options else {}
            assert [viewer.read_line(), viewer.read_line()] == [expected, as_mapping(CLOSE)]


def test_bug_in_a_command_disconnects_only_its_viewer(loop: ServerLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(msgspec.Struct):
        def run(self, *_: object) -> None:
            raise KeyError("nothing")

    monkeypatch.setitem(commands.COMMANDS, "break", Broken)
    with loop.connect_viewer() as first, loop.connect_viewer() as second:
        first.read_line(), second.read_line()
        assert loop.request(first, do="break") == {"error": "KeyError: 'nothing'; this is a bug in kproxy"}
        assert first.read_rest() == []
        assert "connections" in loop.request(second, do="connections")


def test_viewer_is_accepted_later_if_file_descriptors_run_out(
    loop: ServerLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    class ExhaustedSocket:
        def accept(self) -> None:
            raise OSError(errno.EMFILE, "too many open files")

        def fileno(self) -> int:
            return real_socket.fileno()

        def close(self) -> None:
            real_socket.close()

    real_socket = loop.control.socket
    monkeypatch.setattr(loop.control, "socket", ExhaustedSocket())
    with RawViewer(loop.control.path) as viewer:
        loop.run_pending()  # this must not loop forever
        monkeypatch.setattr(loop.control, "socket", real_socket)
        loop.server.tick()
        loop.run_pending()
        assert viewer.read_line()["pid"] == 4711


def test_relay_that_has_ended_cannot_be_stopped(loop: ServerLoop) -> None:
    with loop.connect_viewer() as viewer:
        viewer.read_line()
        assert loop.request(viewer, id=1, do="stop") == {"id": 1, "error": "the relay (process 4711) has already ended"}


def test_viewer_that_does_not_read_delays_the_shutdown_only_briefly(
    loop: ServerLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_GRACE_S", 0.05)
    with loop.connect_viewer() as stuck_viewer, loop.connect_viewer() as quick_viewer:
        quick_viewer.read_line()
        loop.request(stuck_viewer, do="watch")
        for _ in range(200):
            loop.server.publish(SharedLine(msgspec.structs.replace(CLOSE, how=100_000 * "x")))
        loop.server.close()
        assert quick_viewer.read_rest() == []
        assert not loop.control.path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to act as a different user")
def test_other_users_are_rejected_even_if_file_permissions_allow_them(loop: ServerLoop) -> None:
    loop.control.path.chmod(0o666)
    loop.control.path.parent.chmod(0o711)
    os.seteuid(65534)
    try:
        viewer = RawViewer(loop.control.path)
    finally:
        os.seteuid(0)
    with viewer:
        loop.run_pending()
        assert viewer.read_rest() == [{"error": "this proxy belongs to another user"}]


def test_without_peer_credentials_the_directory_permissions_suffice(
    loop: ServerLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(socket, "SO_PEERCRED")
    with loop.connect_viewer() as viewer:
        assert viewer.read_line()["protocol"] == 1


def test_watching_viewers_are_sent_current_and_new_late_responses(loop: ServerLoop) -> None:
    started_at = time.time_ns() - 30 * SECOND
    loop.inspector.open(1, "10.0.0.9:5000", "10.0.0.1:9092", at=started_at)
    loop.inspector.receive_data(1, Direction.REQUEST, request("Metadata", 5, {}, correlation_id=7), at=started_at)
    [late_response] = loop.inspector.late_responses(at=started_at + 6 * SECOND)
    with loop.connect_viewer() as watching_viewer, loop.connect_viewer() as other_viewer:
        watching_viewer.read_line(), other_viewer.read_line()
        loop.request(watching_viewer, id=1, do="watch")
        announced = watching_viewer.read_line()["late"]
        assert (announced["connection_id"], announced["correlation_id"], announced["ts"]) == (
            "web-1-77-1",
            7,
            timestamp(started_at),
        )
        assert announced["why"] == "the broker has not answered on this connection yet"
        loop.server.announce_late(late_response, at=started_at + 6 * SECOND)
        loop.server.flush()
        assert watching_viewer.read_line()["late"] == announced | {"at": timestamp(started_at + 6 * SECOND)}
        assert loop.request(other_viewer, id=1, do="connections")["id"] == 1  # no late response was sent before it


def test_watching_viewers_are_sent_changed_listeners(loop: ServerLoop) -> None:
    listeners_change = {"listeners": [{"listen": "127.0.0.1:9093", "upstream": "b:9092"}]}
    with (
        loop.connect_viewer() as watching_viewer,
        loop.connect_viewer() as late_viewer,
        loop.connect_viewer() as other_viewer,
    ):
        watching_viewer.read_line(), late_viewer.read_line(), other_viewer.read_line()
        assert loop.request(watching_viewer, id=1, do="watch") == {"id": 1, "watching": True}
        loop.server.announce_listeners([Listening("127.0.0.1:9093", "b:9092")])
        assert watching_viewer.read_line() == listeners_change
        assert loop.request(other_viewer, id=1, do="connections") == {"id": 1, "connections": []}
        assert loop.request(late_viewer, id=1, do="watch") == {"id": 1, "watching": True}
        assert late_viewer.read_line() == listeners_change
        assert loop.request(late_viewer, id=2, do="watch") == {"id": 2, "watching": True}
        assert loop.request(late_viewer, id=3, do="connections") == {"id": 3, "connections": []}  # not announced twice
    with loop.connect_viewer() as viewer:
        assert viewer.read_line()["listeners"] == listeners_change["listeners"]


def test_loss_of_workers_during_a_request_is_raised(loop: ServerLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_worker_lost() -> None:
        raise WorkerLost("one of 2 inspectors has ended too often")

    with loop.connect_viewer() as viewer:
        viewer.read_line()
        monkeypatch.setattr(loop.inspector, "open_connections", raise_worker_lost)
        viewer.send(id=1, do="connections")
        with pytest.raises(WorkerLost, match="too often"):
            loop.run_pending()
