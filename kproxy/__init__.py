"""Wire-level inspecting proxy and protocol debugger for Apache Kafka.

The names in `__all__` are for tests of clients and brokers; docs/core.md shows how to use them. Their names, arguments
and meaning stay the same in all releases of a major version, and change only with an entry in the changelog;
arguments and attributes may be added. Submodules may change at any time.

Each name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kproxy.version import __version__

if TYPE_CHECKING:
    from kproxy.broker.broker import Broker as Broker
    from kproxy.broker.options import BrokerOptions as BrokerOptions
    from kproxy.broker.threaded import BrokerThread as BrokerThread
    from kproxy.client.checked_response import CheckedResponse as CheckedResponse
    from kproxy.client.checked_response import exchange as exchange
    from kproxy.errors import UserError as UserError
    from kproxy.probe.check import CheckResult as CheckResult
    from kproxy.probe.run import run_probe as run_probe
    from kproxy.testing.broker import InspectedBroker as InspectedBroker
    from kproxy.testing.proxy import Proxy as Proxy
    from kproxy.testing.report import report as report
    from kproxy.testing.threads import InspectedBrokerThread as InspectedBrokerThread
    from kproxy.testing.threads import ProxyThread as ProxyThread
    from kproxy.trace.lines import RequestLine as RequestLine
    from kproxy.trace.lines import ResponseLine as ResponseLine
    from kproxy.verdict.cause import Cause as Cause
    from kproxy.verdict.causes import Causes as Causes

#: Public name -> the module that defines it.
_MODULES = {
    "Broker": "broker.broker",
    "BrokerOptions": "broker.options",
    "BrokerThread": "broker.threaded",
    "Cause": "verdict.cause",
    "Causes": "verdict.causes",
    "CheckResult": "probe.check",
    "CheckedResponse": "client.checked_response",
    "InspectedBroker": "testing.broker",
    "InspectedBrokerThread": "testing.threads",
    "Proxy": "testing.proxy",
    "ProxyThread": "testing.threads",
    "RequestLine": "trace.lines",
    "ResponseLine": "trace.lines",
    "UserError": "errors",
    "exchange": "client.checked_response",
    "report": "testing.report",
    "run_probe": "probe.run",
}

__all__ = ["__version__", *_MODULES]

if not TYPE_CHECKING:  # a type checker would accept any name

    def __getattr__(name: str) -> object:
        if (module_name := _MODULES.get(name)) is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module_name}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
