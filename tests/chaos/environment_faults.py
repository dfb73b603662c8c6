"""Faults in the environment of kproxy: the upstream, the disk for the trace, file descriptors, clients."""

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


def _signal_upstream(signal_number: signal.Signals) -> Action:
    return lambda rig: rig.upstream.signal(signal_number)


def _kill_upstream_and_try_it(rig: Rig) -> None:
    rig.upstream.signal(signal.SIGKILL)
    rig.try_new_client()


def _restart_upstream_and_try_it(rig: Rig) -> None:
    rig.upstream.start()
    rig.try_new_client()


KILLED_UPSTREAM = Fault(
    "SIGKILL of the upstream",
    _kill_upstream_and_try_it,
    heal=_restart_upstream_and_try_it,
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
    _signal_upstream(signal.SIGSTOP),
    heal=_signal_upstream(signal.SIGCONT),
    reported=ExpectedReport("still waiting for Produce", metrics=("kproxy_requests_in_flight >= 1",), timeout=10),
    stops_traffic=True,
    ended="",
    verbose=True,
)


def _remove_host_name(rig: Rig) -> None:
    rig.hosts.write_text("")
    rig.try_new_client()


def _restore_host_name(rig: Rig) -> None:
    rig.hosts.write_text("127.0.0.1 localhost\n")
    rig.try_new_client()


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
        timeout=10,
    ),
    healed=ExpectedReport(
        "the trace is being written again; [0-9]+ lines are missing",
        '^200 .*"trace": "written"',
        ("kproxy_trace_writing == 1",),
        timeout=15,
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
    relay = rig.proxy.wait_for_process("relay")
    _, hard = resource.prlimit(relay.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(relay.pid, resource.RLIMIT_NOFILE, (256, hard))
    rig.connect_silent_clients(400)


def _free_descriptors(rig: Rig) -> None:
    rig.disconnect_silent_clients()
    assert rig.try_new_client(timeout=3), "a new client waits although descriptors are free"


SHORT_OF_DESCRIPTORS = Fault(
    "no file descriptors left",
    _limit_descriptors,
    heal=_free_descriptors,
    reported=ExpectedReport(
        "cannot accept more connections for now: too many open files", "^503 .*no file descriptors"
    ),
    healed=ExpectedReport(timeout=2),
)


def _connect_slow_readers(rig: Rig) -> None:
    """Connect clients whose pending responses exceed the relay's limit."""
    topic = f"{rig.topic}-large"
    fill_topic(rig.broker, topic, 20, 950_000)
    rig.connect_silent_clients(10, fetch_request(topic, 20_000_000))


SLOW_READERS = Fault(
    "clients that read nothing",
    _connect_slow_readers,
    heal=Rig.disconnect_silent_clients,
    reported=ExpectedReport(metrics=("kproxy_connections_open > 10",)),
)
