"""The cases of the museum, one file each in `cases/`, read once for the tests, the captures and the page.

title = "..."                what went wrong, in a few words
project = "..."              the software with the bug
source = "https://..."       the issue, pull request or changelog that reports it
affected = "..."             the versions with the bug
bug = "..."                  what is wrong with the bytes, in a sentence or two
symptom = "..."              quoted from the source: what the affected program printed
story = "..."                the conversation, in the notation of `tests/kproxy/stories.py`
recorded = "..."             instead of a story: the release that `record` captured, and the options of the broker
note = "..."                 what the bytes do not tell
quirk = "..."                the built-in broker's quirk that reproduces it, if there is one
ports = [9092]               the ports that `kproxy dissect` has to be told, for traffic that is not Kafka
[finding]
code = "L003"                the rule that names the cause
message = "..."              what kproxy prints
edit = '{"kind": ...}'       its first edit as JSON, if it has one
also = ["S034"]              further findings of severity warning or above, which follow from the bug
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CAPTURES = ROOT / "captures" / "museum"


@dataclass(frozen=True)
class Finding:
    """The finding that kproxy is expected to report for a case."""

    code: str
    message: str
    edit: dict[str, Any] | None = None
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A bug in a released program; `story` is the conversation that shows it, unless real traffic was `recorded`."""

    name: str
    title: str
    project: str
    source: str
    affected: str
    bug: str
    symptom: str
    finding: Finding
    story: str | None = None
    recorded: str | None = None
    quirk: str | None = None
    note: str | None = None
    ports: tuple[int, ...] = ()

    @property
    def capture(self) -> Path:
        """The capture file that shows the case."""
        return CAPTURES / f"{self.name}.pcap.gz"

    @property
    def file(self) -> Path:
        """The file that describes the case."""
        return Path(__file__).parent / "cases" / f"{self.name}.toml"


def _read(path: Path) -> Case:
    values = tomllib.loads(path.read_text())
    finding = values.pop("finding")
    edit = json.loads(finding["edit"]) if "edit" in finding else None
    expected_finding = Finding(**(finding | {"edit": edit, "also": tuple(finding.get("also", ()))}))
    return Case(name=path.stem, finding=expected_finding, **(values | {"ports": tuple(values.get("ports", ()))}))


CASES = {path.stem: _read(path) for path in sorted((Path(__file__).parent / "cases").glob("*.toml"))}
