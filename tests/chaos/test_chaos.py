"""Despite faults, acknowledged records are stored, memory is limited, all processes end, and faults are reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("confluent_kafka")

from tests.chaos.expectations import ExpectedReport
from tests.chaos.faults import NO_FAULT
from tests.chaos.judge import play_story
from tests.chaos.stories import STORIES, Story
from tests.chaos.upstreams import RealKafka
from tests.peers.kafka import RELEASES, Kafka, missing

pytestmark = pytest.mark.chaos


def story_params(stories: Iterable[Story], *, quick: bool) -> list[Any]:
    return [
        pytest.param(story, id=story.name, marks=[] if quick and story.quick else [pytest.mark.wide])
        for story in stories
    ]


@pytest.mark.parametrize("story", story_params(STORIES, quick=True))
def test_story_has_no_violations_with_the_built_in_broker(story: Story, tmp_path: Path) -> None:
    assert play_story(story, tmp_path, None) == []


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    if reason := missing():
        pytest.skip(reason)
    kafka = Kafka(RELEASES[0], tmp_path_factory.mktemp("kafka"), {}, {})
    yield kafka
    kafka.kill()


@pytest.mark.parametrize(
    "story",
    story_params([story for story in STORIES if not any(fault.own_hosts for fault in story.faults)], quick=False),
)
def test_story_has_no_violations_with_real_kafka(story: Story, tmp_path: Path, kafka: Kafka) -> None:
    assert play_story(story, tmp_path, RealKafka(kafka)) == []


def test_judge_detects_a_missing_report(tmp_path: Path) -> None:
    unreported = replace(
        NO_FAULT, reported=ExpectedReport("never printed", metrics=("kproxy_inspector_up == 0",), timeout=1)
    )
    with pytest.raises(
        TimeoutError, match=r"not reported .* message 'never printed' and metric 'kproxy_inspector_up == 0'"
    ):
        play_story(Story((unreported,)), tmp_path, None)


def test_judge_detects_a_wrong_exit_status(tmp_path: Path) -> None:
    [violation] = play_story(Story((replace(NO_FAULT, exits=(4,)),)), tmp_path, None)
    assert violation.startswith("exit status [0], expected [4]")
