"""The exit statuses of all commands, defined only here, for ``--help``, ``kproxy help exit-codes`` and the docs.

``python -m kproxy.outputs.exit_statuses docs/exit-codes.md`` writes that page.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Final

from kproxy.errors import CLEAN, FINDINGS, INTERRUPTED, NOTHING, UNREACHABLE, UNWATCHED, USAGE

#: What each status means in general.
MEANINGS: Final = {
    CLEAN: "success",
    FINDINGS: "there is something to look at: a finding, a difference, a failed check",
    USAGE: "wrong usage, an input that cannot be read (completely), or output that cannot be written",
    UNREACHABLE: "a broker cannot be reached",
    UNWATCHED: "traffic was relayed, but its trace is incomplete",
    NOTHING: "there was nothing to examine",
    INTERRUPTED: "ended by Ctrl-C; commands that run until Ctrl-C end with 0",
}
_UNREADABLE: Final = (
    "usage error or unreadable input, even if only some lines of a trace cannot be read: the others are "
)
_NO_BROKER: Final = "the broker cannot be reached"

#: What the statuses mean for each command, and for the relay.
STATUSES_BY_COMMAND: Final[dict[str, dict[int, str]]] = {
    "relay": {
        CLEAN: "stopped by Ctrl-C or SIGTERM",
        FINDINGS: "stopped, and there was a finding of at least --fail-on",
        USAGE: "usage error or unusable address",
        UNREACHABLE: "upstream unreachable",
        UNWATCHED: "traffic was relayed to the end, but the trace is incomplete: the inspector failed (even if it was "
        "restarted) or did not finish within --end-timeout, or lines of the trace could not be written or were deleted",
    },
    "tui": {
        CLEAN: "closed by the user",
        USAGE: "usage error, nothing to show, or a trace with lines that cannot be read",
        UNREACHABLE: "upstream unreachable",
    },
    "web": {
        CLEAN: "stopped by Ctrl-C or SIGTERM",
        USAGE: "usage error, nothing to show or unusable address",
        UNREACHABLE: "upstream unreachable",
    },
    "dissect": {
        CLEAN: "decoded",
        FINDINGS: "a finding of at least --fail-on",
        USAGE: _UNREADABLE + "shown",
        NOTHING: "nothing analysed: no input has a Kafka frame (no packets, no Kafka, or TLS without keys); a finding "
        "takes precedence",
    },
    "explain": {
        CLEAN: "decoded to the last byte",
        FINDINGS: "decoding failed or a finding of at least --fail-on",
        USAGE: "usage error",
    },
    "diff": {
        CLEAN: "no difference",
        FINDINGS: "at least one",
        USAGE: _UNREADABLE + "compared",
        UNREACHABLE: "a broker cannot be reached",
        NOTHING: "an input has no Kafka request",
    },
    "export-test": {
        CLEAN: "written",
        USAGE: "usage error, unreadable input (even if only some lines of a trace cannot be read: the test is "
        "written), or a request with a secret",
        NOTHING: "no such exchange",
    },
    "send": {
        CLEAN: "every response arrived and decoded",
        FINDINGS: "a response is missing, wrong, or has a finding of at least --fail-on",
        USAGE: "usage error",
        UNREACHABLE: _NO_BROKER,
    },
    "probe": {
        CLEAN: "no check failed",
        FINDINGS: "at least one failed (with --strict also if one was skipped)",
        USAGE: "usage error",
        UNREACHABLE: _NO_BROKER,
        NOTHING: "no check applied",
    },
    "replay": {
        CLEAN: "all responses are as captured",
        FINDINGS: "at least one differs or is missing",
        USAGE: _UNREADABLE + "used",
        UNREACHABLE: _NO_BROKER,
        NOTHING: "no request to send",
    },
    "rules": {CLEAN: "shown", USAGE: "unknown rule, or no rule has these words"},
    "quirks": {CLEAN: "shown", USAGE: "invalid quirk"},
    "broker-features": {CLEAN: "shown", USAGE: "unknown API"},
    "analyze": {CLEAN: "done", USAGE: _UNREADABLE + "analyzed"},
    "schemas": {
        CLEAN: "done (with --check: up to date)",
        FINDINGS: "with --check: the data would change",
        USAGE: "usage error, or the import failed",
    },
    "ca": {CLEAN: "done", USAGE: "usage error, or a file cannot be read or written"},
    "completion": {CLEAN: "printed", USAGE: "unknown shell"},
    "help": {CLEAN: "shown", USAGE: "unknown command"},
}

_PREFACE: Final = """\
# Exit codes

`kproxy help exit-codes` prints these tables; the help of each command ends with its own. If the reader of the output
leaves (`| head`), a command ends quietly, with status 0.

This page is generated: `python -m kproxy.outputs.exit_statuses docs/exit-codes.md`.
"""


def sentence(command: str) -> str:
    """Return the statuses of a command, for the end of its help."""
    text = ", ".join(f"{status} {meaning}" for status, meaning in STATUSES_BY_COMMAND[command].items())
    return "\n" + textwrap.fill(f"exit status: {text}", 118, break_on_hyphens=False, break_long_words=False) + "\n"


def table() -> str:
    """Return all statuses as text: what each means in general, then for each command."""
    lines = [f"{status:>3}  {meaning}" for status, meaning in MEANINGS.items()]
    for command, statuses in STATUSES_BY_COMMAND.items():
        lines += ["", f"kproxy {command}" if command != "relay" else "kproxy --listen ... (the relay)"]
        for status, meaning in statuses.items():
            lines += textwrap.wrap(meaning, 100, initial_indent=f"{status:>5}  ", subsequent_indent=" " * 7)
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """Return the content of docs/exit-codes.md."""
    general = "".join(f"| {status} | {meaning} |\n" for status, meaning in MEANINGS.items())
    columns = [status for status in MEANINGS if status != INTERRUPTED]
    head = f"| command | {' | '.join(map(str, columns))} |\n|---|{'---|' * len(columns)}\n"
    rows = "".join(
        f"| `{command if command != 'relay' else '--listen ...'}` | "
        f"{' | '.join(statuses.get(status, '') for status in columns)} |\n"
        for command, statuses in STATUSES_BY_COMMAND.items()
    )
    return f"{_PREFACE}\n| status | meaning |\n|---|---|\n{general}\n## By command\n\n{head}{rows}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(markdown())
