"""StorageHealth: reports when the data directory cannot be written, and when it can be written again."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from kproxy.broker.clock import Clock, Timer

#: The time between attempts to write during an outage.
_PROBE_MS: Final = 1000
#: Large enough to need new blocks: a few bytes often still fit on a full disk.
_PROBE_BYTES: Final = 64 * 1024
_PROBE_NAME: Final = ".probe"

_ADVICE: Final = {
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space, or raise the quota",
    errno.EROFS: "make the file system writable",
    errno.EACCES: "make it writable for this user",
    errno.EPERM: "make it writable for this user",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the system's limit of open files",
    errno.ENOENT: "the directory has been removed: restart kproxy",
}


class StorageHealth:
    """Whether data from clients can be stored. An outage is reported once, with the reason, and so is its end.

    During an outage, clients get error codes instead of acknowledgements. It ends when a second has passed without a
    failure, the journal has caught up, and a file can be written.

    Args:
        directory: The data directory; None if everything is in memory.
        report: Called with each sentence.
        clock: For timers.
    """

    def __init__(
        self,
        directory: Path | None = None,
        report: Callable[[str], None] = lambda sentence: None,
        clock: Clock | None = None,
    ) -> None:
        self._directory = directory
        self._report = report
        self._clock = clock or Clock()
        self._catch_up: Callable[[], bool] = lambda: True
        self._timer: Timer | None = None
        self._failing_since = 0
        self._failure_count = 0
        self._has_failed_recently = False

    @property
    def is_failing(self) -> bool:
        """Whether there is an outage."""
        return self._timer is not None

    def retry_with(self, catch_up: Callable[[], bool]) -> None:
        """During an outage, call `catch_up`, which writes pending data and returns whether it has written all of it."""
        self._catch_up = catch_up

    def record_failure(self, path: Path, error: OSError) -> None:
        """Record that a write to a file failed."""
        self._failure_count += 1
        self._has_failed_recently = True
        if self._timer is not None or self._directory is None:
            return
        self._failing_since = self._clock.now()
        advice = _ADVICE.get(error.errno or 0, "check the disk, then restart kproxy")
        self._report(
            f"the built-in broker cannot write {path}: {error.strerror or error}; clients get errors for what cannot be"
            f" stored, and can still read; {advice}"
        )
        self._schedule()

    def close(self) -> None:
        """Stop retrying."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._has_failed_recently = False
        self._timer = self._clock.schedule(_PROBE_MS, self._check_recovery)

    def _check_recovery(self) -> None:
        assert self._directory is not None
        if self._has_failed_recently or not (self._can_write() and self._catch_up()):
            self._schedule()
            return
        self._timer = None
        duration_s = (self._clock.now() - self._failing_since) / 1000
        failures_text = f"{self._failure_count} write{'s' * (self._failure_count != 1)} failed"
        self._report(
            f"the built-in broker can write {self._directory} again, after {duration_s:.0f} s in which {failures_text}"
        )
        self._failure_count = 0

    def _can_write(self) -> bool:
        assert self._directory is not None
        path = self._directory / _PROBE_NAME
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                return os.write(fd, bytes(_PROBE_BYTES)) == _PROBE_BYTES
            finally:
                os.close(fd)
                path.unlink(missing_ok=True)
        except OSError:
            return False
