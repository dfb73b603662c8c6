"""The broker's APIs: each file in `kproxy.broker.apis` registers the handler of its requests."""

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

#: The body of a response, by snake_case names as in `dissectors.wire.encode.encode` (missing fields get their default);
#: None if there is no response (Produce with acks=0).
Body: TypeAlias = Mapping[str, Any] | None
#: Handles a request, perhaps asynchronously. Requests of a connection are processed one at a time.
Handler: TypeAlias = Callable[["Request"], "Body | Awaitable[Body]"]


@dataclass(frozen=True, slots=True)
class BrokerApi:
    """An API of the broker. It supports the versions `lowest` to `highest`, whatever release the broker emulates.

    `advertised` is the lowest version in ApiVersions: Kafka 4 advertises Produce from 0, and supports it from 3.
    `unauthenticated`: whether it is available before login on a connection that requires one.
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
    """Register the handler of an API with this name in Kafka; by default, for all stable versions of all releases."""
    kafka_api = schemas.api_by_name(name)
    assert kafka_api is not None, name
    newest_stable = max(
        release.highest if release.stable < 0 else release.stable for release in kafka_api.releases.values()
    )

    def register(handler: Handler) -> Handler:
        page = inspect.getdoc(inspect.getmodule(handler)) or ""
        low = kafka_api.min_version if lowest is None else lowest
        _APIS[kafka_api.key] = BrokerApi(
            kafka_api, handler, low, newest_stable if highest is None else highest, low, page, unauthenticated
        )
        return handler

    return register


@functools.cache
def served_apis() -> Mapping[int, BrokerApi]:
    """Return every API of the broker, by key; load their files on the first call."""
    package = importlib.import_module("kproxy.broker.apis")
    for module in sorted(module.name for module in pkgutil.iter_modules(package.__path__)):
        importlib.import_module(f"kproxy.broker.apis.{module}")
    return _APIS
