"""The pages about the broker's APIs are complete, and docs/broker.md contains their table."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.cli import main
from kproxy.outputs import broker_pages, doc_tables

DOCUMENT = Path(__file__).parents[3] / "docs" / "broker.md"


@pytest.mark.parametrize("page", broker_pages.pages(), ids=lambda page: page.api)
def test_every_page_describes_what_the_api_does_and_omits(page: broker_pages.ApiPage) -> None:
    assert page.does.endswith(".")
    assert page.leaves_out.endswith(".")


def test_document_has_the_current_table() -> None:
    text = DOCUMENT.read_text()
    updated = doc_tables.replace_table(text, "apis", broker_pages.markdown())
    assert updated == text, "run: python -m kproxy.outputs.broker_pages docs/broker.md"


def test_command_shows_one_page_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broker-features", "fetch"]) == 0
    output = capsys.readouterr().out
    assert "\nVersions: 0-18.\n  v1: response adds throttle_time_ms\n" in output
    assert output.endswith("  v18: request adds topics[].partitions[].high_watermark (KIP-1166)\n")
    assert main(["broker-features"]) == 0
    assert "ListOffsets" in capsys.readouterr().out
    assert main(["broker-features", "Nope"]) == 2
    assert "does not serve" in capsys.readouterr().err


@pytest.mark.parametrize("width", [60, 80, 200])
def test_table_truncates_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["broker-features"]) == 0
    output = capsys.readouterr().out
    words = "".join(output.split())
    for page in broker_pages.pages():
        for text in (page.api, page.versions, page.does, page.leaves_out):
            assert "".join(text.split()) in words, page.api
    assert "…" not in output
    assert max(map(len, output.splitlines())) <= width
