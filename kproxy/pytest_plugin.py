"""The pytest fixtures of kproxy: `kproxy_broker`, `kproxy_proxy`, and `kproxy_exchange` for testing a broker."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from kproxy.client.checked_response import CheckedResponse
    from kproxy.outputs.finding_selection import Selection
    from kproxy.testing.threads import InspectedBrokerThread, ProxyThread

RunningT = TypeVar("RunningT", bound="AbstractContextManager[Any]")

_TARGET = "KPROXY_TARGET"
_HAS_FAILED = pytest.StashKey[bool]()
_SEVERITIES = ("info", "warning", "error", "never")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("kproxy")
    group.addoption(
        "--kproxy-target", metavar="HOST:PORT", help=f"the broker of the fixture kproxy_exchange (default: ${_TARGET})"
    )
    group.addoption(
        "--kproxy-fail-on", choices=_SEVERITIES,
        help="fail tests with kproxy_broker or kproxy_proxy for a finding of at least this severity (default: never)",
    )  # fmt: skip
    group.addoption(
        "--kproxy-ignore", metavar="CODES", action="append", default=[],
        help="findings that do not fail a test: rule codes, code prefixes or rule names, e.g. V003,C0",
    )  # fmt: skip
    parser.addini("kproxy_fail_on", "the default of --kproxy-fail-on", default="never")
    parser.addini("kproxy_ignore", "codes that are added to --kproxy-ignore", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Declare the markers, and check the options."""
    for line in (
        "kproxy_broker(**settings): settings for the broker of the kproxy_broker fixture, "
        "e.g. brokers=3, release='2.8', topics={'orders': 6}",
        "kproxy(fail_on=SEVERITY, ignore=[CODES], rules=[CODE:LIMIT=VALUE]): which findings fail this test, "
        "instead of --kproxy-fail-on and in addition to --kproxy-ignore, and limits of rules",
    ):
        config.addinivalue_line("markers", line)
    if (error := _invalid_fail_on_message(config.getini("kproxy_fail_on"))) is not None:
        raise pytest.UsageError(error)


@pytest.fixture
def kproxy_broker(request: pytest.FixtureRequest) -> Iterator[InspectedBrokerThread]:
    """A separate Kafka cluster for each test, on loopback: ``kproxy_broker.bootstrap`` is its address.

    ``@pytest.mark.kproxy_broker(brokers=3)`` configures it; the settings are those of `kproxy.Broker`. It runs in a
    thread, so that tests with and without asyncio can use it. ``.findings`` is what kproxy has found in the traffic
    so far, ``.frames`` the requests and responses. ``--kproxy-fail-on`` makes the test fail for its findings.
    """
    from kproxy.testing.threads import InspectedBrokerThread

    marker = request.node.get_closest_marker("kproxy_broker")
    settings = _check_settings(marker.kwargs if marker else {})
    settings.setdefault("rules", _rule_limits(request))
    selection = _finding_selection(request)
    with _run_or_fail(lambda: InspectedBrokerThread(**settings)) as broker:
        yield broker
    _fail_for_findings(request, broker, selection)


@pytest.fixture
def kproxy_proxy(request: pytest.FixtureRequest) -> Iterator[Callable[..., ProxyThread]]:
    """A function that puts an inspecting proxy in front of a cluster until the test ends.

    ``kproxy_proxy("kafka.example:9092")`` returns a `kproxy.ProxyThread`: clients connect to its ``.bootstrap``;
    ``.findings`` and ``.frames`` are the same as for `kproxy_broker`. Other arguments are those of `kproxy.Proxy`.
    """
    from kproxy.testing.threads import ProxyThread

    rules, selection = _rule_limits(request), _finding_selection(request)
    proxies: list[ProxyThread] = []
    with ExitStack() as stack:

        def start(upstream: str, **settings: Any) -> ProxyThread:
            proxy = stack.enter_context(_run_or_fail(lambda: ProxyThread(upstream, **{"rules": rules, **settings})))
            proxies.append(proxy)
            return proxy

        yield start
    for proxy in proxies:
        _fail_for_findings(request, proxy, selection)


@pytest.fixture
def kproxy_exchange(request: pytest.FixtureRequest) -> Callable[[bytes], CheckedResponse]:
    """Return a function that sends a request frame to the broker of ``--kproxy-target`` and returns its response.

    The test fails if no response arrives. `kproxy export-test` writes such tests.
    """
    target = request.config.getoption("--kproxy-target") or os.environ.get(_TARGET)
    if not target:
        pytest.fail(f"no broker to test: pass --kproxy-target HOST:PORT, or set {_TARGET}", pytrace=False)

    return exchange_with(target)


def exchange_with(target: str) -> Callable[[bytes], CheckedResponse]:
    """Return the function of `kproxy_exchange` for the broker at ``HOST:PORT``."""
    from kproxy.client.checked_response import exchange
    from kproxy.errors import UserError
    from kproxy.proxy.address import parse_upstream

    try:
        parse_upstream(target, "--kproxy-target")
    except ValueError as error:
        pytest.fail(str(error), pytrace=False)

    def exchange_frame(frame: bytes) -> CheckedResponse:
        try:
            response = asyncio.run(exchange(target, frame))
        except UserError as error:
            pytest.fail(str(error), pytrace=False)
        if response is None:
            pytest.fail("a Produce request with acks=0 has no response", pytrace=False)
        return response

    return exchange_frame


def _finding_selection(request: pytest.FixtureRequest) -> Selection:
    """Return which findings fail a test, according to its marker and the options."""
    from kproxy.errors import UserError
    from kproxy.outputs.finding_selection import Selection

    config = request.config
    fail_on = config.getoption("--kproxy-fail-on") or config.getini("kproxy_fail_on")
    ignore = [*config.getoption("--kproxy-ignore"), *config.getini("kproxy_ignore")]
    if (marker := request.node.get_closest_marker("kproxy")) is not None:
        fail_on = marker.kwargs.get("fail_on", fail_on)
        if (problem := _invalid_fail_on_message(fail_on)) is not None:
            pytest.fail(problem, pytrace=False)
        ignored = marker.kwargs.get("ignore", ())
        ignore += [ignored] if isinstance(ignored, str) else ignored
    try:
        return Selection(ignore=ignore, fail_on=fail_on)
    except UserError as error:
        raise _failure(str(error).replace("--ignore", "--kproxy-ignore")) from None


def _rule_limits(request: pytest.FixtureRequest) -> list[str]:
    """Return the rule limits that the marker of a test sets."""
    marker = request.node.get_closest_marker("kproxy")
    limits = marker.kwargs.get("rules", ()) if marker is not None else ()
    return [limits] if isinstance(limits, str) else list(limits)


def _failure(sentence: str) -> BaseException:
    """Return the exception that makes a test fail with this sentence and no traceback."""
    return pytest.fail.Exception(sentence, pytrace=False)


def _invalid_fail_on_message(severity: str) -> str | None:
    """Return the error message for a value of ``fail_on``, or None if the value is valid."""
    return None if severity in _SEVERITIES else f"kproxy: invalid fail_on {severity!r}: use {', '.join(_SEVERITIES)}"


def _check_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the marker `kproxy_broker`; fail the test if one of them is unknown."""
    from kproxy.broker.options import BrokerOptions
    from kproxy.filters.errors import nearest

    known = {*(field.name for field in dataclasses.fields(BrokerOptions)), "ports", "report", "options", "rules"}
    for name in settings.keys() - known:
        suggestion = nearest(name, known)
        hint = f"did you mean {suggestion}?" if suggestion else f"settings: {', '.join(sorted(known))}"
        pytest.fail(f"kproxy_broker: unknown setting {name!r}; {hint}", pytrace=False)
    return settings


@contextmanager
def _run_or_fail(start: Callable[[], RunningT]) -> Iterator[RunningT]:
    """Run a broker or a proxy; fail the test with one sentence if it cannot start."""
    from kproxy.errors import UserError

    with ExitStack() as stack:
        try:
            instance = stack.enter_context(start())
        except (UserError, ValueError, OSError) as error:
            raise _failure(f"kproxy cannot start: {error}") from None
        yield instance


def _fail_for_findings(
    request: pytest.FixtureRequest, source: InspectedBrokerThread | ProxyThread, selection: Selection
) -> None:
    """Fail the test if there are selected findings, unless it has already failed for findings of another fixture."""
    if not selection.fails("error") or request.node.stash.get(_HAS_FAILED, False):
        return
    findings = [cause for cause in source.findings if selection.shows(cause.code) and selection.fails(cause.severity)]
    if findings:
        from kproxy.testing.report import report

        request.node.stash[_HAS_FAILED] = True
        pytest.fail(f"kproxy found in the traffic of this test:\n\n{report(findings)}", pytrace=False)
