"""Captures for replay tests, built from stories (`tests.kproxy.stories`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dissectors.messages.message import read_request
from kproxy.inspection.inspector import Inspector
from kproxy.replay.exchange import ReplayedExchange, Replayer
from kproxy.replay.steps import Action, CapturedExchange, Step, build_steps
from kproxy.trace.lines import Detail, Line
from tests.kproxy.stories import StoryPlayer


def lines(story: str) -> list[Line]:
    player = StoryPlayer(Inspector("story", Detail.RAW))
    player.play(story)
    return player.lines


def steps(story: str, wanted_lines: Callable[[Line], bool] | None = None) -> list[Step]:
    return build_steps(lines(story), wanted_lines)


def exchanges(story: str, wanted_lines: Callable[[Line], bool] | None = None) -> list[CapturedExchange]:
    return [step.exchange for step in steps(story, wanted_lines) if step.exchange and step.action is Action.SEND]


def replay_story(
    captured: str, live: str, *, map_offsets: bool = False
) -> tuple[list[dict[str, Any]], list[ReplayedExchange]]:
    """Replay `captured` to a broker that responds as in `live`; return the bodies of the requests, and the results."""
    replayer = Replayer(map_offsets=map_offsets)
    live_exchanges = iter(exchanges(live))
    sent, results = [], []
    responses = {}
    for step in steps(captured):
        assert step.exchange is not None
        if step.action is Action.SEND:
            frame = replayer.frame(step.exchange)
            sent.append(read_request(frame).body)
            live_response = next(live_exchanges).response
            assert live_response is not None
            responses[step.exchange] = live_response.frame
        else:
            results.append(replayer.handle_response(step.exchange, responses[step.exchange]))
    return sent, results
