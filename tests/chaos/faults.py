"""The faults, as data: how to inject and heal each, and what the user must be told of it."""

from __future__ import annotations

import resource
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from tests.chaos.expectations import Told
from tests.chaos.load import fill_topic
from tests.chaos.proxy import NO_ANSWER
from tests.chaos.rig import Rig
from tests.chaos.wire import fetch

Action: TypeAlias = Callable[[Rig], None]


def _nothing(rig: Rig) -> None:
    pass


_HEALTHY = Told()


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        told: While it lasts.
        healed: After `heal`.
        exits: The exit status of each kproxy that ran: a fault may end one, and its heal start another.
        stops_traffic: Nothing can be acknowledged while it lasts. Otherwise, traffic must go on.
        ended: What must be printed, if kproxy is to end (SIGTERM) while the fault lasts; None if it cannot.
        exit_while_it_lasts: The exit status then.
        verbose: It is reported only without `--quiet`.
        own_disk: It needs a small disk for the trace.
        own_hosts: It needs the broker's name to be resolved by a file.
    """

    name: str
    inject: Action
    heal: Action = _nothing
    told: Told = _HEALTHY
    healed: Told = _HEALTHY
    exits: tuple[int, ...] = (0,)
    stops_traffic: bool = False
    ended: str | None = None
    exit_while_it_lasts: int = 0
    verbose: bool = False
    own_disk: bool = False
    own_hosts: bool = False


def _send(part: str, number: signal.Signals) -> Action:
    return lambda rig: rig.proxy.part(part).signal(number)


def _send_upstream(number: signal.Signals) -> Action:
    return lambda rig: rig.upstream.signal(number)


def _end_relay(number: signal.Signals) -> Action:
    def end(rig: Rig) -> None:
        rig.proxy.signal(number)
        rig.proxy.wait()

    return end


# --- the processes of kproxy -------------------------------------------------------------------------------------


def killed_relay(number: signal.Signals, status: int) -> Fault:
    return Fault(
        f"{number.name} of the relay",
        _end_relay(number),
        heal=Rig.start_proxy,
        told=Told(health=NO_ANSWER),
        exits=(status, 0),
        stops_traffic=True,
    )


def _kill_relay_of_stopped_inspector(rig: Rig) -> None:
    rig.proxy.part("inspector").signal(signal.SIGSTOP)
    rig.load.advance()
    rig.proxy.signal(signal.SIGKILL)
    rig.proxy.wait()


KILLED_RELAY_OF_STOPPED_INSPECTOR = replace(
    killed_relay(signal.SIGKILL, -signal.SIGKILL),
    name="SIGKILL of the relay while the inspector is stopped",
    inject=_kill_relay_of_stopped_inspector,
)
STOPPED_RELAY = Fault(
    "SIGSTOP of the relay",
    _send("relay", signal.SIGSTOP),
    heal=_send("relay", signal.SIGCONT),
    told=Told(health=NO_ANSWER),
    stops_traffic=True,
)
KILLED_INSPECTOR = Fault(
    "SIGKILL of the inspector",
    _send("inspector", signal.SIGKILL),
    told=Told(
        r"the inspector stopped \(killed by SIGKILL\): traffic is still relayed; it restarts in",
        '"inspector": "restarting"',
    ),
    healed=Told(
        "the inspector runs again after", '"inspector": "running"',
        ("kproxy_inspector_up == 1", "kproxy_inspector_restarts_total >= 1"),
    ),
    exits=(4,),
)  # fmt: skip
#: Reported within 5 s; the rest is for metrics that are up to a second old, and for a busy machine.
_NOT_RESPONDING = Told(
    "the inspector has not responded for [0-9]+ s.*: traffic is relayed uninspected",
    '^200 .*"inspector": "not responding"',
    ("kproxy_inspector_up == 0", "kproxy_inspector_lag_seconds >= 3"), seconds=7,
)  # fmt: skip
_RESPONDS = Told(
    "the inspector responds again after [0-9]+ s", '^200 .*"inspector": "running"',
    ("kproxy_inspector_up == 1", "kproxy_inspector_lag_seconds < 2"),
)  # fmt: skip
_GIVEN_UP = "the inspector did not finish in time and was killed: [0-9]+ bytes .* were not inspected; .* has gap lines"
STOPPED_INSPECTOR = Fault(
    "SIGSTOP of the inspector",
    _send("inspector", signal.SIGSTOP),
    heal=_send("inspector", signal.SIGCONT),
    told=_NOT_RESPONDING,
    healed=_RESPONDS,
    ended=_GIVEN_UP,
    exit_while_it_lasts=4,
)
OVERRUN_INSPECTOR = replace(
    STOPPED_INSPECTOR,
    name="SIGSTOP of the inspector while 64 MiB go through",
    told=Told(
        "inspection cannot keep up and skips frames", metrics=("kproxy_inspector_dropped_frames_total > 0",), seconds=60
    ),
    healed=Told(
        health='^200 .*"inspector": "running"'
    ),  # whether it was stopped for long enough to be reported, depends
    ended=None,
)
SLOW_INSPECTOR = Fault(
    "inspector with a twentieth of its time",
    lambda rig: rig.throttle("inspector"),
    heal=Rig.unthrottle,
    told=Told(health='^200 .*"inspector": "running"', metrics=("kproxy_inspector_lag_seconds > 0.5",), seconds=10),
    healed=Told(metrics=("kproxy_inspector_lag_seconds < 0.5",), seconds=20),
)
KILLED_WORKER = Fault(
    "SIGKILL of the first worker",
    _send("worker 1", signal.SIGKILL),
    told=Told(r"one of 2 inspectors stopped \(killed by SIGKILL\) and was restarted"),
    exits=(4,),
)
STOPPED_WORKER = Fault(
    "SIGSTOP of the second worker",
    _send("worker 2", signal.SIGSTOP),
    heal=_send("worker 2", signal.SIGCONT),
    told=_NOT_RESPONDING,
    healed=_RESPONDS,
    ended=_GIVEN_UP,
    exit_while_it_lasts=4,
)
KILLED_SPAWNER = Fault(
    "SIGKILL of the spawner",
    _send("spawner", signal.SIGKILL),
    exits=(4,),
    ended=r"the inspector stopped \(the process that starts inspectors was killed\)",
    exit_while_it_lasts=4,
)
STOPPED_SPAWNER = Fault(
    "SIGSTOP of the spawner",
    _send("spawner", signal.SIGSTOP),
    heal=_send("spawner", signal.SIGCONT),
    ended="the inspector did not finish in time",
    exit_while_it_lasts=4,
)


def ignored_term(part: str) -> Fault:
    """Only the relay ends at a SIGTERM; it then ends the others in their order."""
    return Fault(f"SIGTERM of the {part}", _send(part, signal.SIGTERM))


# --- the upstream ------------------------------------------------------------------------------------------------


def _kill_upstream(rig: Rig) -> None:
    rig.upstream.signal(signal.SIGKILL)
    rig.is_answered()


def _revive_upstream(rig: Rig) -> None:
    rig.upstream.start()
    rig.is_answered()


KILLED_UPSTREAM = Fault(
    "SIGKILL of the upstream",
    _kill_upstream,
    heal=_revive_upstream,
    told=Told(
        "is unreachable: .*; refusing clients until it answers", '^503 .*"no upstream can be reached"',
        ("kproxy_connections_refused_total >= 1",),
    ),
    healed=Told("is reachable again"),
    stops_traffic=True,
    ended="",
)  # fmt: skip
MUTE_UPSTREAM = Fault(
    "mute upstream",
    _send_upstream(signal.SIGSTOP),
    heal=_send_upstream(signal.SIGCONT),
    told=Told("still waiting for Produce", metrics=("kproxy_requests_in_flight >= 1",), seconds=10),
    stops_traffic=True,
    ended="",
    verbose=True,
)


def _forget_name(rig: Rig) -> None:
    rig.hosts.write_text("")
    rig.is_answered()


def _remember_name(rig: Rig) -> None:
    rig.hosts.write_text("127.0.0.1 localhost\n")
    rig.is_answered()


FORGOTTEN_UPSTREAM = Fault(
    "upstream gone from DNS",
    _forget_name,
    heal=_remember_name,
    told=Told(
        "is unreachable: .*name.*; refusing clients until it answers", '^503 .*"no upstream can be reached"',
        ("kproxy_connections_refused_total >= 1",),
    ),
    healed=Told("is reachable again"),
    own_hosts=True,
)  # fmt: skip


# --- the trace ---------------------------------------------------------------------------------------------------


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
    told=Told(
        "trace stopped: .*No space left on device",
        "^200 .*not written: No space left on device",
        ("kproxy_trace_writing == 0", "kproxy_trace_lost_lines_total > 0"),
        seconds=10,
    ),
    healed=Told(
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
    told=Told(
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


# --- clients, and what the system has ----------------------------------------------------------------------------


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
    told=Told("cannot accept more connections for now: too many open files", "^503 .*no file descriptors"),
    healed=Told(seconds=2),
)


def _read_nothing(rig: Rig) -> None:
    """Together, the clients are owed more than the relay may keep."""
    topic = f"{rig.topic}-large"
    fill_topic(rig.broker, topic, 20, 950_000)
    rig.crowd(10, fetch(topic, 20_000_000))


SLOW_READERS = Fault(
    "clients that read nothing", _read_nothing, heal=Rig.hang_up, told=Told(metrics=("kproxy_connections_open > 10",))
)
FAULTLESS = Fault("nothing", _nothing)
