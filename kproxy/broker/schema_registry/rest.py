"""The REST operations: one function for each method and path, looked up by `find_operation`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from kproxy.broker.schema_registry.errors import RestError

if TYPE_CHECKING:
    from kproxy.broker.schema_registry.subjects import Subjects


class RestRequest(NamedTuple):
    """A request. `path` is still percent-encoded; `body` is the parsed JSON, None without a body."""

    method: str
    path: str
    query: Mapping[str, str] = {}
    body: Any = None

    def flag(self, name: str) -> bool:
        """Whether a query parameter is true."""
        return self.query.get(name, "").lower() == "true"


class RestResult(NamedTuple):
    """The response: a JSON value, or the text of a schema."""

    status: HTTPStatus
    value: Any


#: (subjects, request, variables in the path) -> the value of the response. Errors are raised as `RestError`.
Operation: TypeAlias = Callable[["Subjects", RestRequest, Mapping[str, str]], Awaitable[Any]]

_MODULES: Final = ("reading_operations", "writing_operations", "settings_operations")
_OPERATIONS: dict[str, list[tuple[re.Pattern[str], Operation]]] = {}


def rest(*paths: str) -> Callable[[Operation], Operation]:
    """Register an operation for paths like ``GET /subjects/{subject}/versions``."""

    def register(operation: Operation) -> Operation:
        for route in paths:
            method, _, path = route.partition(" ")
            pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path) + "/?")
            _OPERATIONS.setdefault(method, []).append((pattern, operation))
        return operation

    return register


def find_operation(request: RestRequest) -> tuple[Operation, Mapping[str, str]]:
    """Return the operation for a request, and the variables in its path.

    Raises:
        RestError: There is none: status 404, or 405 if the path has other methods.
    """
    for module in _MODULES:
        importlib.import_module(f"kproxy.broker.schema_registry.{module}")
    for method in (request.method, *_OPERATIONS):
        for pattern, handler in _OPERATIONS.get(method, ()):
            if (match := pattern.fullmatch(request.path)) is not None:
                if method != request.method:
                    raise RestError(HTTPStatus.METHOD_NOT_ALLOWED, 405, "HTTP 405 Method Not Allowed")
                return handler, {name: unquote(text) for name, text in match.groupdict().items()}
    raise RestError(HTTPStatus.NOT_FOUND, 404, "HTTP 404 Not Found")
