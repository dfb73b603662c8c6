"""The APIs of the built-in broker, from their docstrings, for `kproxy broker-features` and docs/broker.md.

``python -m kproxy.outputs.broker_pages docs/broker.md`` regenerates the table in that file.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from dissectors import schemas
from dissectors.messages.version_changes import version_notes
from kproxy.broker.registry import served_apis
from kproxy.outputs import doc_tables


@dataclass(frozen=True, slots=True)
class ApiPage:
    """An API of the broker: its versions, what it does (a sentence), what it omits, and its full page.

    `changes` lists each served version except the first with what it changes.
    """

    key: int
    api: str
    lowest: int
    highest: int
    does: str
    leaves_out: str
    text: str
    changes: list[tuple[int, str]]

    @property
    def versions(self) -> str:
        """The range of versions, e.g. ``0-18``."""
        return f"{self.lowest}-{self.highest}" if self.lowest < self.highest else str(self.lowest)


def pages() -> list[ApiPage]:
    """Return the APIs that the broker serves, ordered by key."""
    result = []
    for key, api in sorted(served_apis().items()):
        paragraphs = [" ".join(part.split()) for part in api.page.split("\n\n")]
        description = paragraphs[0].partition(": ")[2] or paragraphs[0]
        omission = next((paragraph for paragraph in paragraphs if paragraph.startswith("Leaves out: ")), "")
        leaves_out = omission.removeprefix("Leaves out: ")
        changes = [(version, note) for version, note in version_notes(key) if api.lowest < version <= api.highest]
        result.append(ApiPage(key, api.api.name, api.lowest, api.highest, description, leaves_out, api.page, changes))
    return result


def unserved_apis() -> list[str]:
    """Return the names of Kafka's APIs that the broker does not serve."""
    return [api.name for api in schemas.apis() if api.key not in served_apis()]


def markdown() -> str:
    """Return the table of docs/broker.md."""
    rows = "".join(f"| {page.api} | {page.versions} | {page.does} | {page.leaves_out} |\n" for page in pages())
    unserved = ", ".join(unserved_apis())
    return f"| API | versions | does | leaves out |\n|---|---|---|---|\n{rows}\nNot served: {unserved}.\n"


if __name__ == "__main__":
    _document = Path(sys.argv[1])
    _document.write_text(doc_tables.replace_table(_document.read_text(), "apis", markdown()))
