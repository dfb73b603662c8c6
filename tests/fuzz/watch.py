"""Record the CPU time and exceptions of the frames in one chunk."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dissectors.failures import Failure

#: A frame that takes at least this much CPU time (ms) counts as slow.
SLOW = 200


class _Collector:
    """The CPU time of the garbage collector, which is not due to the frame during which it runs."""

    def __init__(self) -> None:
        self.total = self._began = 0.0
        gc.callbacks.append(self)

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.process_time()
        else:
            self.total += time.process_time() - self._began


_COLLECTOR = _Collector()


class Watch:
    """Count frames, and keep the slowest one, the slow ones, and those that raised or failed in a step.

    The time of a frame excludes that of the garbage collector.
    """

    def __init__(self) -> None:
        self.frames = 0
        self.slowest: dict[str, Any] = {"ms": 0.0}
        self.slow: list[dict[str, Any]] = []
        self.raised: list[dict[str, Any]] = []
        self._began = time.process_time()

    def _time(self) -> float:
        return time.process_time() - _COLLECTOR.total

    @contextmanager
    def frame(self, frame: bytes) -> Iterator[None]:
        """Attribute time and exceptions in the block to this frame."""
        failures_before, start = len(self.raised), self._time()
        try:
            yield
        except Exception:  # noqa: BLE001  # we are looking for any exception
            self.raised.append({"error": traceback.format_exc()})
        ms = round(1000 * (self._time() - start), 1)
        frame_record = {"frame": self.frames, "ms": ms, "hex": frame.hex()}
        self.frames += 1
        for failure in self.raised[failures_before:]:
            failure.update(frame_record)
        if ms > self.slowest["ms"]:
            self.slowest = frame_record
        if ms >= SLOW:
            self.slow.append(frame_record)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Also record the exceptions that kproxy catches itself and reports as K007."""
        original = Failure.of

        def record_failure(step: str, error: Exception) -> Failure:
            self.raised.append({"error": "".join(traceback.format_exception(error))})
            return original(step, error)

        Failure.of = record_failure  # type: ignore[method-assign]
        try:
            yield
        finally:
            Failure.of = original  # type: ignore[method-assign]

    def record(self) -> dict[str, Any]:
        """Return the chunk as a JSON object."""
        cpu = round(time.process_time() - self._began, 1)
        return {"frames": self.frames, "cpu_s": cpu, "slowest": self.slowest, "slow": self.slow, "raised": self.raised}
