"""Write the captures made from stories to captures/: ``python -m tests.kproxy.captures_made``."""

import gzip
from pathlib import Path

from tests.kproxy.captures.behaviour import BEHAVIOUR
from tests.kproxy.captures.deviating_responses import DEVIATING_RESPONSES
from tests.kproxy.captures.recorder import record_story

CAPTURES = Path(__file__).parents[2] / "captures"

STORIES = {name: response.story for name, response in DEVIATING_RESPONSES.items()} | BEHAVIOUR

if __name__ == "__main__":
    for name, story in STORIES.items():
        (CAPTURES / f"{name}.pcap.gz").write_bytes(gzip.compress(record_story(story), mtime=0))
