"""Scenarios: an API, a fault of the broker, and a client that meets it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Final

from tests.faults.apis import APIS, CLIENTS, JAVA, TestedApi

#: Faults without an error code; `delay` is longer than a client's usual poll, and shorter than its request timeout.
_SILENT_FAULTS: Final = {"drop": "drop", "close": "close", "delay": "delay:7000"}
#: Workloads of runs without a fault.
_FAULTLESS_WORKLOADS: Final = (
    "produce", "idempotent", "transactions", "aborts", "offsets", "consume", "static", "next-generation", "read",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scenario:
    """One run.

    Attributes:
        api: The API with the fault; "" without a fault.
        kind: error, drop, close, delay, layout or empty; right without a fault.
        detail: The name of the error, the edit, or the empty array.
        client: The name of the client.
        workload: The workload of the client.
        options: Options of the broker, including the quirk.
    """

    api: str
    kind: str
    detail: str
    client: str
    workload: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """The name, such as ``Produce:error:NOT_ENOUGH_REPLICAS/librdkafka-produce``."""
        fault = ":".join(filter(None, (self.api, self.kind, self.detail)))
        return f"{fault}/{self.client}-{self.workload}"


def all_scenarios() -> list[Scenario]:
    """Return all scenarios: each client gets a fault in each of its APIs at least once if there are enough errors."""
    return [scenario for api in APIS for scenario in _api_scenarios(api)] + list(_faultless_scenarios())


def select_scenarios(words: Iterable[str], clients: Iterable[str]) -> list[Scenario]:
    """Return the scenarios of these clients whose name has one of the words; without words, all of them."""
    words, clients = list(words), set(clients) or set(CLIENTS)
    return [
        scenario
        for scenario in all_scenarios()
        if scenario.client in clients and (not words or any(word in scenario.name for word in words))
    ]


def _api_scenarios(api: TestedApi) -> Iterator[Scenario]:
    clients = cycle(client for client in CLIENTS if client in api.workloads)

    def scenario(kind: str, detail: str, quirk: str) -> Scenario:
        client = next(clients)
        options = (*api.options, "--quirk", f"{api.name}:{quirk}")
        return Scenario(api.name, kind, detail, client, api.workloads[client], options)

    for error in api.errors:
        yield scenario("error", error, f"error:{error}")
    if not api.layout and not api.empty:
        return  # a further workload of an API; another row has its other faults
    for kind, quirk in _SILENT_FAULTS.items():
        yield scenario(kind, "", quirk)
    if api.layout:
        yield scenario("layout", api.layout, api.layout)
    if api.empty:
        yield scenario("empty", api.empty, f"value:{api.empty}:[]")


def _faultless_scenarios() -> Iterator[Scenario]:
    for client in CLIENTS:
        for workload in (*_FAULTLESS_WORKLOADS, *(("share",) if client == JAVA else ())):
            yield Scenario("", "right", "", client, workload, ())
