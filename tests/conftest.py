"""Hypothesis profiles: CI (CI=true) uses the same examples in every run, other runs use new ones.

`pytest --hypothesis-profile=night` runs for a long time; `few` is for Python versions other than the one that runs all.
"""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator

import pytest
from hypothesis import settings

from dissectors.failures import Failure

# No deadline: a layout is compiled at its first use, and machines differ.
settings.register_profile("ci", derandomize=True, max_examples=100, deadline=None, database=None, print_blob=True)
settings.register_profile("local", max_examples=25, deadline=None)
settings.register_profile("few", settings.get_profile("ci"), max_examples=20)
settings.register_profile("night", max_examples=5_000, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")


def pytest_configure(config: pytest.Config) -> None:
    """Put bytecode into pytest's cache if it is not wanted next to the sources, and let Ctrl-C end processes.

    Compiling these tests takes most of the time it takes to collect them, and they often start Python. A shell that
    starts tests in the background ignores Ctrl-C for them, and processes inherit that.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.dont_write_bytecode and (cache := getattr(config, "cache", None)) is not None:
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish() -> None:
    """Collect garbage rarely: each full collection traverses more than a million objects of the tests themselves.

    `gc.freeze` would hide them, but then Hypothesis 6.120 cannot find the referrers of a registered generator.
    """
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture(autouse=True, scope="session")
def hide_pytest_options() -> None:
    """Hide pytest's options from processes that tests start, but only after the workers of pytest-xdist have read them.

    The coverage of such processes is not measured either: its warnings and its file would disturb the tests.
    """
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


@pytest.fixture(autouse=True)
def internal_errors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Failure]]:
    """Yield the bugs that kproxy reported during this test; they fail the test unless it requests this fixture."""
    failures: list[Failure] = []
    original = Failure.of

    def record_failure(step: str, error: Exception) -> Failure:
        failures.append(failure := original(step, error))
        return failure

    monkeypatch.setattr(Failure, "of", record_failure)
    yield failures
    if "internal_errors" not in request.node.function.__code__.co_varnames:
        assert not [failure for failure in failures if failure.step != "playing a story"]


if sys.version_info < (3, 12):

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport() -> Generator[None, object, object]:
        """Turn off the garbage collector while pytest shows a failure.

        To do so, pytest parses the source. In Python 3.11, `ast.parse` raises SystemError if the collector runs a
        finalizer that also parses, for example to log the traceback of a lost task, and then the whole run ends:
        https://github.com/python/cpython/issues/106905.
        """
        gc.disable()
        try:
            return (yield)
        finally:
            gc.enable()
