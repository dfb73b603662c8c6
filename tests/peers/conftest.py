"""Fixtures: for the whole test run, a real broker of each release; for each module, a real browser."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.peers.browser import Tab, browser, executable
from tests.peers.kafka import RELEASES, Kafka, missing
from tests.peers.lab import SASL, Lab
from tests.peers.questions import Questions
from tests.peers.server import AUTHORIZER, CONFIGS, JUDGE
from tests.peers.toolchains import skip

#: Files that wait longest and run first, so that no test process is still busy long after the others.
_LONGEST = {"test_transactions", "test_advertise", "test_recipes"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.stem not in _LONGEST)


@pytest.fixture(scope="session")
def labs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Lab]]:
    """Yield a function that returns the broker of a release, which it starts at first use.

    All of them run until the end: each file of tests needs all releases, and a start takes longer than most tests.
    """
    with ExitStack() as stack:
        started: dict[str, Lab] = {}

        def find_or_start(release: str) -> Lab:
            if release not in started:
                fronts = {
                    name: stack.enter_context(socket.create_server(("127.0.0.1", 0))) for name in ("PLAIN", "SASL")
                }
                advertised = {name: front.getsockname()[1] for name, front in fronts.items()}
                kafka = Kafka(release, tmp_path_factory.mktemp("kafka"), advertised, SASL)
                stack.callback(kafka.kill)
                asyncio.run(_wait_for_coordinators(kafka.direct[1]))
                started[release] = Lab(kafka, fronts)
            return started[release]

        yield find_or_start


@pytest.fixture(scope="session", params=RELEASES)
def lab(request: pytest.FixtureRequest, labs: Callable[[str], Lab]) -> Lab:
    if reason := missing():
        pytest.skip(reason)
    return labs(request.param)


async def _wait_for_coordinators(port: int) -> None:
    """Wait until the broker coordinates transactions.

    At first use, the broker names itself as the coordinator before it is ready, and on a busy machine it refuses
    requests for a while, which kproxy would report (S022). The transactional ids spread over all partitions.
    """
    questions = Questions(port)
    for number in range(16):
        await questions.transactional_producer(f"first-{number}")
    await questions.hang_up()


@pytest.fixture(scope="session")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab | None]:
    """Yield the real Kafka that replaces the built-in broker, if the environment names a release."""
    if not (release := os.environ.get(JUDGE)):
        yield None
        return
    with socket.create_server(("127.0.0.1", 0)) as front:
        advertised = {"PLAIN": front.getsockname()[1]}
        kafka = Kafka(release, tmp_path_factory.mktemp("judge"), advertised, CONFIGS | AUTHORIZER)
        yield Lab(kafka, {"PLAIN": front})
        kafka.kill()


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    program = executable()
    if program is None:
        skip("needs chromium on PATH")
    with browser(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened
