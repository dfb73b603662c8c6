"""Digests of the output of `kproxy dissect --json` for recorded traffic and the example captures.

``python -m tests.kproxy.line_digests`` writes them to tests/data/lines.json. After a change that is meant to alter
lines, ``python benchmarks/same_lines.py OLD_CHECKOUT tests/data/traffic/*.gz captures/*.gz`` shows which ones differ.
"""

import contextlib
import hashlib
import io
import json
from pathlib import Path

from kproxy.cli import main

ROOT = Path(__file__).parents[2]
EXPECTED = ROOT / "tests/data/lines.json"
CAPTURES = sorted([*ROOT.glob("tests/data/traffic/*.pcap.gz"), *ROOT.glob("captures/*.pcap.gz")])
DETAILS = ("summary", "full")


def dissected_lines(capture: Path, detail: str) -> bytes:
    """Return the trace lines of a capture, as the command prints them."""
    with (
        io.BytesIO() as buffer,
        io.TextIOWrapper(buffer, encoding="utf-8") as output,
        contextlib.redirect_stdout(output),
    ):
        main(["dissect", "--json", "--detail", detail, "--fail-on", "never", str(capture)])
        output.flush()
        return buffer.getvalue()


def digests(capture: Path) -> dict[str, object]:
    """Return the number of lines, and a digest of the lines at each level of detail."""
    lines = {detail: dissected_lines(capture, detail) for detail in DETAILS}
    return {"lines": lines[DETAILS[0]].count(b"\n")} | {
        detail: hashlib.sha256(output).hexdigest()[:16] for detail, output in lines.items()
    }


if __name__ == "__main__":
    digests_by_name = {capture.name: digests(capture) for capture in CAPTURES}
    rows = ",\n".join(f"{json.dumps(name)}: {json.dumps(digest)}" for name, digest in digests_by_name.items())
    EXPECTED.write_text(f"{{\n{rows}\n}}\n")
