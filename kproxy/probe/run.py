"""Runs checks, several at a time, and yields their results in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from dissectors.failures import Failure
from kproxy.probe.check import BrokerGone, Check, CheckFailed, CheckResult, CheckSkipped
from kproxy.probe.target import Target


async def run_checks(
    target: Target, selected: Sequence[Check], *, writes: bool, at_once: int = 8
) -> AsyncIterator[CheckResult]:
    """Run checks with at most `at_once` at a time; yield the results in the order of the checks.

    Once the broker no longer accepts connections, the remaining checks are skipped.

    Args:
        target: The broker.
        selected: The checks.
        writes: Whether checks that write may run; otherwise they are skipped.
        at_once: The number of checks that run at the same time.
    """
    limit = asyncio.Semaphore(at_once)
    running: list[str] = []
    gone = False

    async def run(check: Check) -> CheckResult:
        nonlocal gone
        if check.writes and not writes:
            return CheckResult(check, "skip", "it writes: pass --write")
        async with limit:
            if gone:
                return CheckResult(check, "skip", "the broker no longer accepts connections")
            running.append(check.id)
            try:
                result = await _run(target, check)
            except BrokerGone as error:
                gone, others = True, ", ".join(running)
                return CheckResult(check, "fail", f"{error}; these checks ran at that time: {others}")
            running.remove(check.id)
            return result

    async with asyncio.TaskGroup() as group:
        for task in [group.create_task(run(check)) for check in selected]:
            yield await task


async def _run(target: Target, check: Check) -> CheckResult:
    began = time.perf_counter()
    try:
        await _run_tasks(check, target)
    except BrokerGone:
        raise
    except CheckFailed as failed:
        result = CheckResult(check, "fail", str(failed), failed.evidence)
    except CheckSkipped as skipped:
        return CheckResult(check, "skip", str(skipped))
    except Exception as error:  # noqa: BLE001  # a bug in a check must not end the others
        result = CheckResult(check, "fail", f"kproxy failed: {Failure.of('running a check', error)}")
    else:
        result = CheckResult(check, "pass")
    return replace(result, duration_ms=1000 * (time.perf_counter() - began))


async def _run_tasks(check: Check, target: Target) -> None:
    """Run the check. If tasks of it fail, raise the first error."""
    try:
        await check.run(target)
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        raise error from None
