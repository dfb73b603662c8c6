"""A source of schemas that is queried in a thread, for callers that must not wait, such as a proxy's inspector."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from dissectors.bounded import BoundedDict
from dissectors.values import NotRegistered, Schema, SchemaKey
from kproxy.registry import SchemaSource

_MAX_KEPT: Final = 1000
_MAX_WAITING: Final = 100
_TIMEOUT_S: Final = 0.2
#: How long it is remembered that there is no schema (s), and how long a failure of the source is.
_KEEP_MISSING_S: Final = 60.0
_KEEP_FAILURE_S: Final = 1.0

NOT_YET: Final = "its schema is not fetched yet"


class BackgroundSource:
    """A source of schemas that answers at once, or soon.

    A lookup waits up to `timeout` for schemas that are requested for the first time, unless earlier ones are still
    missing. So the schema is usually there for its first record, and a source that hangs costs this time once. Lookups
    wait at most `timeout` in total per second, so a slow source costs no more, however many schemas are requested.

    Args:
        source: The source to query. Only the thread uses it.
        timeout: The longest wait, in seconds.
        now: The monotonic clock in seconds.
    """

    def __init__(
        self, source: SchemaSource, *, timeout: float = _TIMEOUT_S, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._source = source
        self._patience = timeout
        self._now = now
        self._changed = threading.Condition()
        self._waiting: dict[SchemaKey, None] = {}
        self._asked: set[SchemaKey] = set()
        #: Key -> until when the answer is valid, and the answer.
        self._known: BoundedDict[SchemaKey, tuple[float, Schema | str]] = BoundedDict(_MAX_KEPT)
        self._thread: threading.Thread | None = None
        #: How long lookups may still wait (s), and when that was calculated.
        self._remaining_wait = timeout
        self._calculated_at = now()

    def lookup(self, keys: Iterable[SchemaKey]) -> Mapping[SchemaKey, Schema | str]:
        """Return the known schemas, and why the others are unknown; see `SchemaSource`."""
        keys = [*keys]
        with self._changed:
            is_behind = bool(self._waiting or self._asked)
            is_new = self._request(keys)
            if is_new and not is_behind:
                self._wait()
            return {key: self._known[key][1] if key in self._known else NOT_YET for key in keys}

    def _request(self, keys: list[SchemaKey]) -> bool:
        """Pass the keys without a valid answer to the thread; return whether one of them never had an answer."""
        is_new = False
        for key in keys:
            expires_at, _ = self._known.get(key, (float("-inf"), ""))
            if (
                expires_at > self._now()
                or key in self._waiting
                or key in self._asked
                or len(self._waiting) >= _MAX_WAITING
            ):
                continue
            is_new = is_new or key not in self._known
            self._waiting[key] = None
        if self._waiting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="schemas", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        return is_new

    def _wait(self) -> None:
        """Wait until the thread has all answers, but no longer than lookups may still wait."""
        started_at = self._now()
        self._remaining_wait = min(
            self._patience, self._remaining_wait + (started_at - self._calculated_at) * self._patience
        )
        self._changed.wait_for(lambda: not (self._waiting or self._asked), self._remaining_wait)
        self._calculated_at = self._now()
        self._remaining_wait = max(0.0, self._remaining_wait - (self._calculated_at - started_at))

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting)
                self._asked, self._waiting = {*self._waiting}, {}
            try:
                results = self._source.lookup(self._asked)
            except Exception as error:  # noqa: BLE001  # the thread must go on
                results = dict.fromkeys(self._asked, f"looking up its schema failed with {type(error).__name__}")
            with self._changed:
                for key in self._asked:
                    result = results.get(key, NOT_YET)
                    self._known[key] = self._now() + _lifetime(result), result
                self._asked = set()
                self._changed.notify_all()


def _lifetime(result: Schema | str) -> float:
    if isinstance(result, Schema):
        return float("inf")
    return _KEEP_MISSING_S if isinstance(result, NotRegistered) else _KEEP_FAILURE_S
