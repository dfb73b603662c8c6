"""Reports a bug that ends an inspecting process."""

from __future__ import annotations

import os
import traceback

from kproxy.outputs.stderr import warn


def report_failure(error: Exception) -> None:
    """Print one sentence, and the traceback if the user has asked for it."""
    if os.environ.get("KPROXY_TRACEBACK"):
        traceback.print_exception(error)
    warn(
        f"the inspector failed ({type(error).__name__}: {error}); this is a bug in kproxy: set KPROXY_TRACEBACK=1 for "
        "a traceback"
    )
