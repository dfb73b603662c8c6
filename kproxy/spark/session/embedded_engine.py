"""The embedded engine: Sail (Rust, no Java), in a child process that only this process can use.

In its own process, it can run out of memory without taking kproxy down, and Ctrl-C ends it immediately.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from kproxy.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SERVER: Final = Path(__file__).with_name("embedded_server.py")
_SETTINGS: Final = {"spark.sql.session.timeZone": "UTC"}
#: Options of the connection: it must stay open (a new one would be refused), and needs no proxy to reach this machine.
_CHANNEL: Final = [("grpc.client_idle_timeout_ms", (1 << 31) - 1), ("grpc.enable_http_proxy", 0)]
#: The session identifiers of embedded engines in this process.
_SESSIONS: Final = set[str]()


class EmbeddedEngine:
    """A process that runs Sail. It takes as long to start as importing pyspark, which can be done meanwhile.

    Args:
        memory_limit: The maximum number of bytes that queries may use.

    Raises:
        UserError: The packages are missing.
    """

    def __init__(self, memory_limit: int) -> None:
        if not is_installed():
            from kproxy.io.extras import install_command

            raise UserError(f"the embedded engine needs Sail: {install_command('analytics')}")
        self.memory_limit = memory_limit
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `close`
        self._process = subprocess.Popen(  # noqa: S603  # Python with our own program
            [sys.executable, "-P", str(_SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log,
            env=_environment(os.environ, memory_limit), process_group=0,  # Sail would handle Ctrl-C by itself
        )  # fmt: skip
        atexit.register(self.close)

    def connect(self, settings: Mapping[str, str] | None = None) -> SparkSession:
        """Return the engine's only session.

        Raises:
            UserError: The engine did not start, or another program has connected to it.
        """
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        port = self._read()
        os.environ.setdefault("SPARK_CONNECT_MODE_ENABLED", "1")  # pyspark.sql's functions build columns for it
        channel = DefaultChannelBuilder(f"sc://127.0.0.1:{port}", [*_CHANNEL])
        session = ConnectSession.builder.channelBuilder(channel).create()
        session.client.set_retry_policies([])  # if the engine has died, retries are pointless
        for name, value in {**_SETTINGS, **(settings or {})}.items():
            session.conf.set(name, value)
        if self._read(b"connected\n") != 1:
            self.close()
            raise UserError("another program has connected to the embedded engine: run kproxy analyze again")
        _SESSIONS.add(session.session_id)
        return cast("SparkSession", session)  # pyspark's two sessions are different classes

    @property
    def has_died(self) -> bool:
        """Whether the process has ended on its own."""
        return self._process.poll() is not None

    def ends(self, within: float) -> bool:
        """Wait up to `within` seconds for the process to end on its own; return whether it did."""
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def kill(self) -> None:
        """End the process immediately; calls of the session that are in progress fail."""
        self._process.kill()

    def close(self) -> None:
        """End the process immediately, and release its resources."""
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()
        for file in (self._process.stdin, self._process.stdout, self._log):
            with suppress(BrokenPipeError):
                file.close()  # type: ignore[union-attr]

    def _read(self, request: bytes = b"") -> int:
        """Send a request, and return the next number that the process writes."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(request)
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its log has the reason
        if line := self._process.stdout.readline():
            return int(line)
        self._log.seek(0)
        last_line = self._log.read().decode(errors="replace").strip().rpartition("\n")[2]
        raise UserError(f"the embedded engine did not start: {last_line or 'it was killed'}")


def is_installed() -> bool:
    """Whether Sail and a client of Spark Connect are installed."""
    return all(find_spec(name) is not None for name in ("pysail", "pyspark", "grpc"))


def memory_limit() -> int:
    """Return how many bytes the engine may use: half the memory of this machine or container."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):  # "max" if there is no limit
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total // 2


def version() -> str:
    """Return the name and version of the engine."""
    from importlib import metadata  # imported here because it loads 20 modules

    return f"Sail {metadata.version('pysail')}"


def is_embedded(spark: SparkSession) -> bool:
    """Whether a session belongs to the embedded engine."""
    return getattr(spark, "session_id", None) in _SESSIONS


def _environment(base: Mapping[str, str], memory_limit: int) -> dict[str, str]:
    """Return the environment of the process, with Sail's settings (docs.lakesail.com, configuration reference)."""
    return {
        "RUST_LOG": "error",
        # Sail's allocator (mimalloc) keeps freed memory for a second, and with huge pages any piece below 2 MB: all
        # tables of 4 million lines took 2.2 to 3.2 GB instead of 1.4 to 1.7, with the same CPU time.
        "MIMALLOC_ALLOW_THP": "0",
        "MIMALLOC_PURGE_DELAY": "100",
        **base,
        "SAIL_MODE": "local",
        "SAIL_PARQUET__PUSHDOWN_FILTERS": "true",  # all tables of a million lines take 8 % less CPU time
        "SAIL_RUNTIME__MEMORY_POOL__TYPE": "greedy",
        "SAIL_RUNTIME__MEMORY_POOL__GREEDY__MAX_SIZE": str(memory_limit),
    }
