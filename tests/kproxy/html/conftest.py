"""The fixture that runs the command line, for tests of the pages it writes."""

from tests.kproxy.cli.conftest import kproxy

__all__ = ["kproxy"]
