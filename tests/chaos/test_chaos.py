"""Whatever goes wrong: what is acknowledged is stored, memory is bounded, no process stays, and the user is told."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("confluent_kafka")

from tests.chaos.judge import violations
from tests.chaos.stories import STORIES, Story

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize(
    "story",
    [pytest.param(story, id=name, marks=[] if story.quick else [pytest.mark.wide]) for name, story in STORIES.items()],
)
def test_with_the_built_in_broker(story: Story, tmp_path: Path) -> None:
    assert violations(story, tmp_path, None) == []
