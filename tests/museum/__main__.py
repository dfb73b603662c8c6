"""Writes the captures of the museum and its page: ``python -m tests.museum``."""

import gzip

from tests.kproxy.captures.recorder import recorded
from tests.museum.cases import CASES, ROOT
from tests.museum.page import page

for case in CASES.values():
    if case.story is not None:
        case.capture.write_bytes(gzip.compress(recorded(case.story), mtime=0))
(ROOT / "docs" / "museum.md").write_text(page())
