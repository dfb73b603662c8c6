"""Check that another revision of kproxy has the same output for captures: lines, text, findings, columns, live trace.

    python benchmarks/same_lines.py OLD_CHECKOUT CAPTURE ... [--live] [--inspectors N]

Runs both revisions at the same time and compares their outputs byte by byte; for each set of options with a difference,
it prints the first differing lines. The status is 1 if anything differs. Nothing is kept, so captures may be long.

--live also plays the bytes of each capture through both relays. Times and ports then depend on the computer and are
ignored, and lines are compared per connection, in order. --inspectors does this with several inspectors.
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from played import played  # beside this file
from recorded import sent

_HERE: Final = Path(__file__).resolve().parent.parent
_COLUMNS: Final = "ts,connection_id,kind,api,version,client_id,correlation_id,latency_us,size,error,findings"
#: Sets of options of `dissect`, one for each kind of output.
OPTION_SETS: Final = (
    [],
    ["--json"],
    ["--json", "--detail", "full"],
    ["--json", "--detail", "raw"],
    ["--findings"],
    ["--findings", "--format", "json"],
    ["--fields", "ts,api,latency_us"],
    ["--fields", _COLUMNS],
    ["-f", "api=Fetch or error!=0"],
    ["--html"],
)
#: Text that differs between two runs with the same traffic: times, durations in messages, and ports of this computer.
_RUN_SPECIFIC: Final = re.compile(
    rb'"(?:request_)?ts":"[^"]*"|"ages_ms":\[[^]]*\]|"[a-z_]*(?:_us|_ms|_ns|_at|since|until)":[^,}]*'
    rb"|\b127\.0\.0\.1:\d+|\b\d+(?:\.\d+)? (?:us|ms|s|min)\b"
)
_CONNECTION: Final = re.compile(rb'"connection_id":"[^"]*-(\d+)"')


def _environment(checkout: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return environment | {"PYTHONPATH": str(checkout), "PYTHONHASHSEED": "0"}


def difference(checkouts: tuple[Path, Path], options: list[str], path: Path) -> str | None:
    """Return the first lines that differ, if any."""
    command = [sys.executable, "-P", "-m", "kproxy", "dissect", *options, str(path)]
    processes = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment(checkout))
        for checkout in checkouts
    ]
    try:
        outputs = [process.stdout for process in processes if process.stdout]
        for number, (old, new) in enumerate(itertools.zip_longest(*outputs, fillvalue=b"nothing"), 1):
            if old != new:
                return _difference_text(number, old, new)
        old_status, new_status = (process.wait() for process in processes)
        return f"status {old_status} before, {new_status} now" if old_status != new_status else None
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def _difference_text(number: int, old: bytes, new: bytes) -> str:
    index = next((i for i, (old_byte, new_byte) in enumerate(zip(old, new, strict=False)) if old_byte != new_byte), 0)
    start = max(0, index - 100)
    return "".join(
        f"\n    line {number}, byte {index}, {name}: {line[start : index + 200].decode(errors='replace').rstrip()}"
        for name, line in (("before", old), ("now", new))
    )


def live_difference(checkouts: tuple[Path, Path], path: Path, options: list[str]) -> str | None:
    """Return the first lines of the traces that differ, if any."""
    old_lines, take_new_lines = (_live_lines(checkout, path, options) for checkout in checkouts)
    for connection in sorted(old_lines.keys() | take_new_lines.keys()):
        pairs = itertools.zip_longest(
            old_lines.get(connection, []), take_new_lines.get(connection, []), fillvalue=b"nothing"
        )
        for number, (old, new) in enumerate(pairs, 1):
            if old != new:
                return f" connection {connection}{_difference_text(number, old, new)}"
    return None


def _live_lines(checkout: Path, path: Path, options: list[str]) -> Mapping[int, list[bytes]]:
    """Return the trace's lines by connection; -1 has the lines without a connection."""
    lines: dict[int, list[bytes]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as trace:
        played(checkout, sent(path), Path(trace), options)
        for line in _lines(Path(trace)):
            match = _CONNECTION.search(line)
            anonymous = _CONNECTION.sub(b"", line)
            lines[int(match[1]) if match else -1].append(_RUN_SPECIFIC.sub(b"", anonymous))
    if not lines:
        raise SystemExit(f"kproxy of {checkout} has written no line of {path.name}")
    return lines


def _lines(trace: Path) -> Iterator[bytes]:
    for path in sorted(path for path in trace.rglob("*.jsonl*") if path.is_file()):
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            yield from file


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD_CHECKOUT")
    parser.add_argument("captures", type=Path, nargs="+", metavar="CAPTURE")
    parser.add_argument("--live", action="store_true")
    parser.add_argument("--inspectors", type=int)
    args = parser.parse_args()
    checkouts = args.old.resolve(), _HERE
    if not (checkouts[0] / "kproxy").is_dir():
        parser.error(f"{args.old} has no kproxy")
    differing = compared = 0
    for path in args.captures:
        differences = {
            f"dissect {' '.join(options)}": difference(checkouts, options, path.resolve()) for options in OPTION_SETS
        }
        if args.live:
            differences["live"] = live_difference(checkouts, path, [])
        if args.inspectors:
            options = ["--inspectors", str(args.inspectors)]
            differences[" ".join(("live", *options))] = live_difference(checkouts, path, options)
        for run_name, first_difference in differences.items():
            compared += 1
            if first_difference is not None:
                differing += 1
                print(f"{path}: {run_name}:{first_difference}", flush=True)
    print(f"{differing} of {compared} outputs differ, of {len(args.captures)} captures")
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
