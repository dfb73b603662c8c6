"""Runs several checks at a time, and yields their results in order."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import replace

from dissectors.failures import Failure
from kproxy.client.connection import ClientTls
from kproxy.client.exchange import split_frames
from kproxy.inspection.explain import explain
from kproxy.probe.check import BrokerGone, Check, CheckFailed, CheckResult, CheckSkipped
from kproxy.probe.selection import select
from kproxy.probe.target import Target, request_name
from kproxy.proxy.address import parse_upstream

_GONE_REASON = "the broker no longer accepts connections"


async def run_probe(
    address: str,
    *,
    only: Iterable[str] = (),
    skip: Iterable[str] = (),
    writes: bool = False,
    within: float = 10.0,
    tls: ssl.SSLContext | None = None,
) -> list[CheckResult]:
    """Test whether a broker conforms to Kafka's protocol, as `kproxy probe` does.

    ::

        results = asyncio.run(run_probe("localhost:9092", only=["framing", "Metadata"]))
        assert [result for result in results if result.outcome == "fail"] == []

    Args:
        address: The broker, ``host:port``.
        only: The checks to run (all if empty): ids or their beginnings. docs/probe.md lists them.
        skip: Checks not to run.
        writes: Whether checks that create topics, records and groups run; otherwise they are skipped.
        within: Seconds for each response.
        tls: The TLS settings, for a broker with TLS.

    Returns:
        One result per check, in the order of the checks: ``pass``, ``fail`` with a sentence, or ``skip``.

    Raises:
        ValueError: The address is invalid.
        UserError: A name matches no check, or the broker cannot be reached.
    """
    selected = select(only, skip, prefix="")
    broker_address = parse_upstream(address, "the broker's address")
    target = Target(broker_address, within, None if tls is None else ClientTls(tls))
    await target.learn_versions()
    return [result async for result in run_checks(target, selected, writes=writes)]


async def run_checks(
    target: Target, selected: Sequence[Check], *, writes: bool, at_once: int = 8
) -> AsyncIterator[CheckResult]:
    """Run at most `at_once` checks at a time; yield the results in the order of the checks.

    Once the broker no longer accepts connections, the remaining checks are skipped.

    Args:
        target: The broker.
        selected: The checks.
        writes: Whether checks that write may run; otherwise they are skipped.
        at_once: The number of checks that run at the same time.
    """
    probe_run = _ProbeRun(target, at_once)
    async with asyncio.TaskGroup() as group:
        for task in [group.create_task(probe_run.run_check(check, writes=writes)) for check in selected]:
            yield await task


class _ProbeRun:
    def __init__(self, target: Target, at_once: int) -> None:
        self._target, self._slots = target, asyncio.Semaphore(at_once)
        self._is_gone = False
        #: For each running check, the checks that may have taken the broker down: itself, the others that run at
        #: the same time, and those of them that ended with a failure.
        self._suspects: dict[str, dict[str, Target]] = {}
        self._ended_last: dict[str, Target] = {}

    async def run_check(self, check: Check, *, writes: bool) -> CheckResult:
        """Run a check when its turn comes, and find out whether the broker still accepts connections."""
        if check.writes and not writes:
            return CheckResult(check, "skip", "it writes: pass --write")
        async with self._slots:
            if self._is_gone:
                return CheckResult(check, "skip", _GONE_REASON)
            target = replace(self._target, opened=[])
            self._begin(check.id, target)
            try:
                result = await _run_check(target, check)
                if result.outcome == "fail" and target.opened and await self._target.is_gone() and not self._is_gone:
                    result = self._with_suspects(result)
            except BrokerGone as error:
                if self._is_gone:
                    result = CheckResult(check, "skip", _GONE_REASON)
                else:
                    result = self._with_suspects(CheckResult(check, "fail", str(error)))
            self._end(result, target)
            return result

    def _begin(self, check_id: str, target: Target) -> None:
        running = {running_id: suspects[running_id] for running_id, suspects in self._suspects.items()}
        for suspects in self._suspects.values():
            suspects[check_id] = target
        self._suspects[check_id] = {check_id: target, **running}

    def _end(self, result: CheckResult, target: Target) -> None:
        del self._suspects[result.check.id]
        if result.outcome != "fail":
            for suspects in self._suspects.values():
                suspects.pop(result.check.id, None)
        self._ended_last = {result.check.id: target}

    def _with_suspects(self, result: CheckResult) -> CheckResult:
        """Add the last request of each suspected check to the result of the check that found the broker gone."""
        self._is_gone = True
        suspects = self._suspects[result.check.id]
        if not any(suspect.opened for suspect in suspects.values()):
            suspects = self._ended_last
        last_frames = {check_id: frame for check_id, target in suspects.items() if (frame := _last_sent(target))}
        sent_requests = (
            ", ".join(f"{request_name(frame)} by {check_id}" for check_id, frame in last_frames.items()) or "nothing"
        )
        advice = (
            f"pass --skip {next(iter(last_frames))}"
            if len(last_frames) == 1
            else "--at-once 1 finds the check that causes it"
        )
        sentence = (
            f"{result.sentence}; {_GONE_REASON}; sent last: {sent_requests}; to run the rest, restart it and {advice}"
        )
        return replace(result, sentence=sentence, evidence=result.evidence or tuple(map(explain, last_frames.values())))


def _last_sent(target: Target) -> bytes:
    """Return the last whole request frame that a check sent, empty if there is none."""
    frames = [frame for connection in target.opened for frame in split_frames(connection.last_sent)[0]]
    return frames[-1] if frames else b""


async def _run_check(target: Target, check: Check) -> CheckResult:
    started_at = time.perf_counter()
    try:
        await _run_unwrapped(check, target)
    except BrokerGone:
        raise
    except CheckFailed as failure:
        result = CheckResult(check, "fail", str(failure), failure.evidence)
    except CheckSkipped as skip:
        return CheckResult(check, "skip", str(skip))
    except Exception as error:  # noqa: BLE001  # a bug in a check must not end the others
        result = CheckResult(check, "fail", f"kproxy failed: {Failure.of('running a check', error)}")
    else:
        result = CheckResult(check, "pass")
    return replace(result, duration_ms=1000 * (time.perf_counter() - started_at))


async def _run_unwrapped(check: Check, target: Target) -> None:
    """Run the check. If some of its tasks fail, raise the first error."""
    try:
        await check.run(target)
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None
