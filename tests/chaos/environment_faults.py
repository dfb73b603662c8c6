"""Faults in the environment of kproxy: the upstream, the disk of the trace, file descriptors, clients."""

from __future__ import annotations

import resource
import shutil
import signal
from dataclasses import replace

from tests.chaos.expectations import ExpectedReport
from tests.chaos.faults import Action, Fault
from tests.chaos.load import fill_topic
from tests.chaos.rig import Rig
from tests.chaos.wire import fetch_request


def _send_upstream(number: signal.Signals) -> Action:
    return lambda rig: rig.upstream.signal(number)


def _kill_upstream(rig: Rig) -> None:
    rig.upstream.signal(signal.SIGKILL)
    rig.is_answered()


def _restart_upstream(rig: Rig) -> None:
    rig.upstream.start()
    rig.is_answered()


KILLED_UPSTREAM = Fault(
    "SIGKILL of the upstream",
    _kill_upstream,
    heal=_restart_upstream,
    reported=ExpectedReport(
        "is unreachable: .*; refusing clients until it answers", '^503 .*"no upstream can be reached"',
        ("kproxy_connections_refused_total >= 1",),
    ),
    healed=ExpectedReport("is reachable again"),
    stops_traffic=True,
    ended="",
)  # fmt: skip
UNRESPONSIVE_UPSTREAM = Fault(
    "mute upstream",
    _send_upstream(signal.SIGSTOP),
    heal=_send_upstream(signal.SIGCONT),
    reported=ExpectedReport("still waiting for Produce", metrics=("kproxy_requests_in_flight >= 1",), seconds=10),
    stops_traffic=True,
    ended="",
    verbose=True,
)


def _remove_host_name(rig: Rig) -> None:
    rig.hosts.write_text("")
    rig.is_answered()


def _restore_host_name(rig: Rig) -> None:
    rig.hosts.write_text("127.0.0.1 localhost\n")
    rig.is_answered()


UNRESOLVABLE_UPSTREAM = Fault(
    "upstream gone from DNS",
    _remove_host_name,
    heal=_restore_host_name,
    reported=ExpectedReport(
        "is unreachable: .*name.*; refusing clients until it answers", '^503 .*"no upstream can be reached"',
        ("kproxy_connections_refused_total >= 1",),
    ),
    healed=ExpectedReport("is reachable again"),
    own_hosts=True,
)  # fmt: skip


def _fill_disk(rig: Rig) -> None:
    assert rig.disk is not None
    rig.disk.fill()


def _empty_disk(rig: Rig) -> None:
    assert rig.disk is not None
    rig.disk.empty()


FULL_DISK = Fault(
    "full trace disk",
    _fill_disk,
    heal=_empty_disk,
    reported=ExpectedReport(
        "trace stopped: .*No space left on device",
        "^200 .*not written: No space left on device",
        ("kproxy_trace_writing == 0", "kproxy_trace_lost_lines_total > 0"),
        seconds=10,
    ),
    healed=ExpectedReport(
        "the trace is being written again; [0-9]+ lines are missing",
        '^200 .*"trace": "written"',
        ("kproxy_trace_writing == 1",),
        seconds=15,
    ),
    exits=(4,),
    ended="trace lines are missing",
    exit_while_it_lasts=4,
    own_disk=True,
)


def _remove_trace(rig: Rig) -> None:
    shutil.rmtree(rig.trace)


REMOVED_TRACE = Fault(
    "removed trace directory",
    _remove_trace,
    reported=ExpectedReport(
        "trace file .* was deleted: [0-9]+ lines are lost; the trace continues in",
        '"trace_lost_lines": [1-9]',
        ("kproxy_trace_lost_lines_total > 0", "kproxy_trace_writing == 1"),
    ),
    exits=(4,),
)


def _unmount_disk(rig: Rig) -> None:
    assert rig.disk is not None
    rig.disk.unmount()


REMOVED_DISK = replace(REMOVED_TRACE, name="removed trace disk", inject=_unmount_disk, own_disk=True)


def _limit_descriptors(rig: Rig) -> None:
    relay = rig.proxy.part("relay")
    _, hard = resource.prlimit(relay.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(relay.pid, resource.RLIMIT_NOFILE, (256, hard))
    rig.crowd(400)


def _free_descriptors(rig: Rig) -> None:
    rig.hang_up()
    assert rig.is_answered(seconds=3), "a new client waits although descriptors are free"


SHORT_OF_DESCRIPTORS = Fault(
    "no file descriptors left",
    _limit_descriptors,
    heal=_free_descriptors,
    reported=ExpectedReport(
        "cannot accept more connections for now: too many open files", "^503 .*no file descriptors"
    ),
    healed=ExpectedReport(seconds=2),
)


def _connect_slow_readers(rig: Rig) -> None:
    """Connect clients whose pending responses exceed the limit of the relay."""
    topic = f"{rig.topic}-large"
    fill_topic(rig.broker, topic, 20, 950_000)
    rig.crowd(10, fetch_request(topic, 20_000_000))


SLOW_READERS = Fault(
    "clients that read nothing",
    _connect_slow_readers,
    heal=Rig.hang_up,
    reported=ExpectedReport(metrics=("kproxy_connections_open > 10",)),
)
