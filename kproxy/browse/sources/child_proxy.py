"""A proxy as a child process that ends with the viewer."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from kproxy.browse.sources.proxy import ProxySource
from kproxy.control.paths import control_socket_path
from kproxy.control.protocol import ControlError
from kproxy.errors import UserError

#: How a proxy's startup messages begin.
_STARTED: Final = ("listening on ", "built-in Kafka ")
#: How kproxy's error messages begin.
_ERROR_PREFIX: Final = "kproxy: "
_TIMEOUT_S: Final = 10.0


class ChildProxy:
    """A running ``kproxy`` with a control socket.

    `control` is the path of the socket, `messages` the proxy's output. The proxy ends when its standard input closes,
    so it ends even if the viewer is killed.

    Args:
        arguments: Options of the root command.
        control: The socket, if the options include ``--control``.
        on_message: Called with each message after startup, in addition to `messages`, from another thread.

    Raises:
        UserError: The proxy ended before it started listening.
        ControlError: The proxy has no control socket.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        control: Path | None = None,
        on_message: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.messages: deque[str] = deque(maxlen=200)
        self._on_message = on_message
        self._started = threading.Event()
        self._process = subprocess.Popen(  # noqa: S603  # our own options
            [sys.executable, "-m", "kproxy", "-q", "--stop-with-stdin", *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace",
            process_group=0,  # Ctrl-C is for the viewer
        )  # fmt: skip
        self._last_error = ""
        self._reader = threading.Thread(target=self._read_messages, daemon=True, name="messages of the proxy")
        self._reader.start()
        self._started.wait()
        if (status := self._process.poll()) is not None:
            self.stop()
            raise UserError(self._last_error or f"the proxy ended with status {status}", status)
        try:
            self.control = control or control_socket_path(self._process.pid)
        except ControlError:
            self.stop()
            raise

    def _read_messages(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if not (sentence := line.strip()):
                continue
            self.messages.append(sentence)
            if line.startswith(_ERROR_PREFIX):
                self._last_error = sentence.removeprefix(_ERROR_PREFIX)
            if self._started.is_set():
                self._on_message(sentence)
            elif line.startswith(_STARTED):
                for message in self.messages:
                    self._on_message(message)
                self._started.set()
        self._process.wait()
        self._started.set()

    @property
    def exit_message(self) -> str | None:
        """How the proxy ended; None while it runs."""
        if (status := self._process.poll()) is None:
            return None
        ending = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return f"the proxy {ending}" + (f": {self._last_error}" if self._last_error else "")

    def stop(self) -> None:
        """Stop the proxy and wait until it has ended."""
        self._process.terminate()
        try:
            self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_TIMEOUT_S)  # the inspector's last messages
        for pipe in (self._process.stdin, self._process.stderr):
            assert pipe is not None
            pipe.close()


class ChildProxySource(ProxySource):
    """The lines of a proxy that the viewer started."""

    def __init__(self, proxy: ChildProxy, *, keep: int) -> None:
        super().__init__("kproxy", self._locate_control, keep=keep)
        self._proxy = proxy
        self.messages = proxy.messages

    @property
    def warning(self) -> str | None:
        """See `Source`."""
        if self._proxy.exit_message is not None:
            return None
        count = len(self._open)
        clients = f" and closes {count:,} connection{'s' if count != 1 else ''}" if count else ""
        return f"Quitting stops the proxy {self.name}{clients}."

    def _locate_control(self) -> Path:
        if self._proxy.exit_message is not None:
            raise ControlError("it has ended")
        return self._proxy.control

    def _end_reason(self) -> str | None:
        return self._proxy.exit_message

    def close(self) -> None:
        """See `Source`."""
        super().close()
        self._proxy.stop()
