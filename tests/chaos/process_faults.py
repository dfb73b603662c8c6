"""Faults of kproxy's processes, which are killed, stopped, slowed down, or sent a signal that they ignore."""

from __future__ import annotations

import signal
from dataclasses import replace

from tests.chaos.expectations import ExpectedReport
from tests.chaos.faults import Action, Fault
from tests.chaos.proxy import NO_RESPONSE
from tests.chaos.rig import Rig


def _signal_process(name: str, signal_number: signal.Signals) -> Action:
    return lambda rig: rig.proxy.wait_for_process(name).signal(signal_number)


def _end_relay(signal_number: signal.Signals) -> Action:
    def end_relay(rig: Rig) -> None:
        rig.proxy.signal(signal_number)
        rig.proxy.wait()

    return end_relay


def killed_relay(signal_number: signal.Signals, status: int) -> Fault:
    return Fault(
        f"{signal_number.name} of the relay",
        _end_relay(signal_number),
        heal=Rig.start_proxy,
        reported=ExpectedReport(health=NO_RESPONSE),
        exits=(status, 0),
        stops_traffic=True,
    )


def _kill_relay_of_stopped_inspector(rig: Rig) -> None:
    rig.proxy.wait_for_process("inspector").signal(signal.SIGSTOP)
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
    _signal_process("relay", signal.SIGSTOP),
    heal=_signal_process("relay", signal.SIGCONT),
    reported=ExpectedReport(health=NO_RESPONSE),
    stops_traffic=True,
)
KILLED_INSPECTOR = Fault(
    "SIGKILL of the inspector",
    _signal_process("inspector", signal.SIGKILL),
    reported=ExpectedReport(
        r"the inspector stopped \(killed by SIGKILL\): traffic is still relayed; it restarts in",
        '"inspector": "restarting"',
    ),
    healed=ExpectedReport(
        "the inspector runs again after", '"inspector": "running"',
        ("kproxy_inspector_up == 1", "kproxy_inspector_restarts_total >= 1"),
    ),
    exits=(4,),
)  # fmt: skip
#: Reported within 5 s; the margin is for metrics that are up to a second old, and for a busy machine.
_NOT_RESPONDING = ExpectedReport(
    "the inspector has not responded for [0-9]+ s.*: traffic is relayed uninspected",
    '^200 .*"inspector": "not responding"',
    ("kproxy_inspector_up == 0", "kproxy_inspector_lag_seconds >= 3"), timeout=7,
)  # fmt: skip
_RESPONDS = ExpectedReport(
    "the inspector responds again after [0-9]+ s", '^200 .*"inspector": "running"',
    ("kproxy_inspector_up == 1", "kproxy_inspector_lag_seconds < 2"),
)  # fmt: skip
_GIVEN_UP = "the inspector did not finish in time: [0-9]+ bytes .* were not inspected; .* has gap lines"
STOPPED_INSPECTOR = Fault(
    "SIGSTOP of the inspector",
    _signal_process("inspector", signal.SIGSTOP),
    heal=_signal_process("inspector", signal.SIGCONT),
    reported=_NOT_RESPONDING,
    healed=_RESPONDS,
    ended=_GIVEN_UP,
    exit_while_it_lasts=4,
)
OVERRUN_INSPECTOR = replace(
    STOPPED_INSPECTOR,
    name="SIGSTOP of the inspector while 64 MiB go through",
    reported=ExpectedReport(
        "inspection cannot keep up and skips frames", metrics=("kproxy_inspector_dropped_frames_total > 0",), timeout=60
    ),
    healed=ExpectedReport(
        health='^200 .*"inspector": "running"'
    ),  # it may or may not have been stopped for long enough to be reported
    ended=None,
)
SLOW_INSPECTOR = Fault(
    "inspector with a twentieth of its time",
    lambda rig: rig.throttle("inspector"),
    heal=Rig.unthrottle,
    reported=ExpectedReport(
        health='^200 .*"inspector": "running"', metrics=("kproxy_inspector_lag_seconds > 0.5",), timeout=10
    ),
    healed=ExpectedReport(metrics=("kproxy_inspector_lag_seconds < 0.5",), timeout=20),
)
KILLED_WORKER = Fault(
    "SIGKILL of the first worker",
    _signal_process("worker 1", signal.SIGKILL),
    reported=ExpectedReport(
        r"one of 2 inspectors stopped \(killed by SIGKILL\) and was restarted",
        metrics=("kproxy_inspector_worker_restarts_total >= 1",),
    ),
    exits=(4,),
)
STOPPED_WORKER = Fault(
    "SIGSTOP of the second worker",
    _signal_process("worker 2", signal.SIGSTOP),
    heal=_signal_process("worker 2", signal.SIGCONT),
    reported=_NOT_RESPONDING,
    healed=_RESPONDS,
    ended=_GIVEN_UP,
    exit_while_it_lasts=4,
)
KILLED_SPAWNER = Fault(
    "SIGKILL of the spawner",
    _signal_process("spawner", signal.SIGKILL),
    reported=ExpectedReport(
        "no other one can follow it",
        health='^200 .*"inspector": "running, cannot be restarted"',
        metrics=("kproxy_inspector_up == 1", "kproxy_inspector_restartable == 0"),
    ),
    exits=(4,),
    ended="the trace may lack lines: the process that starts inspectors was killed",
    exit_while_it_lasts=4,
)
STOPPED_SPAWNER = Fault(
    "SIGSTOP of the spawner",
    _signal_process("spawner", signal.SIGSTOP),
    heal=_signal_process("spawner", signal.SIGCONT),
    ended="the inspector did not finish in time",
    exit_while_it_lasts=4,
)


def ignored_sigterm(process_name: str) -> Fault:
    """Return a fault without effect: only the relay reacts to SIGTERM, and then stops the other processes in order."""
    return Fault(f"SIGTERM of the {process_name}", _signal_process(process_name, signal.SIGTERM))
