"""The proxy and the inspected broker for code that is not asynchronous: each runs in its own thread."""

from __future__ import annotations

from typing import Any, Self

from kproxy.broker.threaded import BrokerThread
from kproxy.io.loop_thread import LoopThread
from kproxy.testing.broker import InspectedBroker
from kproxy.testing.proxy import Proxy
from kproxy.testing.traffic import Inspected
from kproxy.trace.lines import RequestLine, ResponseLine
from kproxy.verdict.cause import Cause


class _InspectedThread:
    """The results of an inspected broker or proxy that runs in a thread. They remain available after the block."""

    _inspected: Inspected
    _thread: LoopThread

    @property
    def frames(self) -> list[RequestLine | ResponseLine]:
        """See `InspectedBroker.frames`."""
        self._settle()
        return self._thread.call(lambda: self._inspected.frames)

    def requests(self, api: str | None = None) -> list[RequestLine]:
        """See `InspectedBroker.requests`."""
        self._settle()
        return self._thread.call(self._inspected.requests, api)

    def responses(self, api: str | None = None) -> list[ResponseLine]:
        """See `InspectedBroker.responses`."""
        self._settle()
        return self._thread.call(self._inspected.responses, api)

    @property
    def findings(self) -> list[Cause]:
        """See `InspectedBroker.findings`."""
        self._settle()
        return self._thread.call(lambda: self._inspected.findings)

    def _settle(self) -> None:
        if self._thread.is_running:
            self._thread.run(self._inspected.settle())


class ProxyThread(_InspectedThread):
    """A `Proxy` that runs for the duration of a `with` block.

    ::

        with ProxyThread("kafka.example:9092") as proxy:
            run_my_consumer(proxy.bootstrap)
            assert proxy.findings == []

    Args:
        upstream: See `Proxy`.
        settings: See `Proxy`.
    """

    def __init__(self, upstream: str, **settings: Any) -> None:
        self._inspected = self._proxy = Proxy(upstream, **settings)
        self._thread = LoopThread("kproxy proxy", self._proxy)

    @property
    def bootstrap(self) -> str:
        """See `Proxy.bootstrap`."""
        return self._proxy.bootstrap

    def __enter__(self) -> Self:
        self._thread.enter()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.exit()


class InspectedBrokerThread(_InspectedThread, BrokerThread):
    """An `InspectedBroker` that runs for the duration of a `with` block; otherwise like `BrokerThread`.

    Args:
        settings: See `InspectedBroker`.
    """

    def __init__(self, **settings: Any) -> None:
        self._inspected = broker = InspectedBroker(**settings)
        super().__init__(broker)
