"""Pages that the command line writes."""

from tests.kproxy.cli.conftest import kproxy

__all__ = ["kproxy"]
