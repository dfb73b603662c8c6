"""Scenarios: an API, a fault of the broker, a client that meets it, and what the first line about it must say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from tests.faults.apis import APIS, CLIENTS, JAVA, TestedApi

#: Faults beside errors; `delay` is longer than a client's usual wait for news, and shorter than its request timeout.
_SILENT: Final = {"drop": "drop", "close": "close", "delay": "delay:7000"}
#: Workloads of runs without a fault; `come-and-go` is one.
_RIGHT: Final = (
    "produce", "idempotent", "transactions", "aborts", "offsets", "consume", "static", "next-generation", "read",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run.

    Attributes:
        api: The API that the fault is in; "" for a right run.
        kind: error, drop, close, delay, layout, empty; right.
        detail: The error's name, the edit, or the empty array.
        client: Which one.
        workload: What it does.
        options: Of the broker, the quirk included.
    """

    api: str
    kind: str
    detail: str
    client: str
    workload: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """``Produce:error:NOT_ENOUGH_REPLICAS/librdkafka-produce``."""
        fault = ":".join(filter(None, (self.api, self.kind, self.detail)))
        return f"{fault}/{self.client}-{self.workload}"


def all_scenarios() -> list[Scenario]:
    """All of them: each client meets each of its APIs at least once where there are enough errors."""
    return [scenario for api in APIS for scenario in _of_api(api)] + list(_right())


def chosen(words: Iterable[str], clients: Iterable[str]) -> list[Scenario]:
    """Those of these clients whose name has one of the words; all if there are none."""
    words, clients = list(words), set(clients) or set(CLIENTS)
    return [
        scenario
        for scenario in all_scenarios()
        if scenario.client in clients and (not words or any(word in scenario.name for word in words))
    ]


def _of_api(api: TestedApi) -> Iterator[Scenario]:
    clients = cycle(client for client in CLIENTS if client in api.workloads)

    def scenario(kind: str, detail: str, quirk: str) -> Scenario:
        client = next(clients)
        options = (*api.options, "--quirk", f"{api.name}:{quirk}")
        return Scenario(api.name, kind, detail, client, api.workloads[client], options)

    for error in api.errors:
        yield scenario("error", error, f"error:{error}")
    if not api.layout and not api.empty:
        return  # another workload of an API that has its own row
    for kind, quirk in _SILENT.items():
        yield scenario(kind, "", quirk)
    if api.layout:
        yield scenario("layout", api.layout, api.layout)
    if api.empty:
        yield scenario("empty", api.empty, f"value:{api.empty}:[]")


def _right() -> Iterator[Scenario]:
    for client in CLIENTS:
        for workload in (*_RIGHT, *(("share",) if client == JAVA else ())):
            yield Scenario("", "right", "", client, workload, ())
