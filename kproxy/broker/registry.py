"""The APIs that the broker has: each file in `kproxy.broker.apis` registers what answers its requests."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dissectors import schemas

if TYPE_CHECKING:
    from kproxy.broker.request import Request

#: The body of a response, by snake_case names as `dissectors.wire.encode.encode` takes them (what is left out gets its
#: default); None where nothing is answered (Produce with acks=0).
Body: TypeAlias = Mapping[str, Any] | None
#: Answers a request at once, or after awaiting what it needs. Requests of a connection are answered one by one.
Handler: TypeAlias = Callable[["Request"], "Body | Awaitable[Body]"]


@dataclass(frozen=True, slots=True)
class BrokerApi:
    """An API of the broker. `lowest` to `highest` are the versions that it answers, whatever release it stands in for.

    `advertised` is the lowest version in ApiVersions: Kafka 4 says that it has Produce from 0, and has it from 3.
    `unauthenticated`: also answered on a connection that has not logged in where that is asked for.
    """

    api: schemas.Api
    handler: Handler
    lowest: int
    highest: int
    advertised: int
    page: str  # the docstring of the file
    unauthenticated: bool


_APIS: Final[dict[int, BrokerApi]] = {}


def api(
    name: str, *, lowest: int | None = None, highest: int | None = None, unauthenticated: bool = False
) -> Callable[[Handler], Handler]:
    """Register what answers an API, by Kafka's name for it; all stable versions of all releases unless told."""
    known = schemas.api_by_name(name)
    assert known is not None, name
    stable = max(each.highest if each.stable < 0 else each.stable for each in known.releases.values())

    def register(handler: Handler) -> Handler:
        page = inspect.getdoc(inspect.getmodule(handler)) or ""
        low = known.min_version if lowest is None else lowest
        _APIS[known.key] = BrokerApi(
            known, handler, low, stable if highest is None else highest, low, page, unauthenticated
        )
        return handler

    return register


@functools.cache
def served() -> Mapping[int, BrokerApi]:
    """Every API of the broker, by key; loads their files at the first call."""
    package = importlib.import_module("kproxy.broker.apis")
    for module in sorted(each.name for each in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"kproxy.broker.apis.{module}")
    return _APIS
