from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.filters import parse
from kproxy.filters.page import EXAMPLES, page

DOCS = Path(__file__).parents[3] / "docs"


def test_page_in_docs_is_up_to_date() -> None:
    assert (DOCS / "filters.md").read_text() == page(), "run: python -m kproxy.filters.page > docs/filters.md"


@pytest.mark.parametrize("text", EXAMPLES)
def test_every_example_on_the_page_is_valid(text: str) -> None:
    assert parse(str(parse(text))) == parse(text)
