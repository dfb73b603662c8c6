"""Answers requests with captured responses. No I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Final, TypeAlias

from dissectors.interception.addresses import AddressRewriter
from dissectors.interception.interceptor import Replace, RequestHeader
from dissectors.messages.message import Message, read_request
from dissectors.schemas.codes import ApiKey
from kproxy.replay.responses import api_versions
from kproxy.replay.steps import Action, CapturedExchange, Step

_Key: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CapturedAnswer:
    """The frame to send (None: send nothing), and how many seconds the captured broker took to send it."""

    frame: bytes | None
    delay: float


class UnknownRequestError(Exception):
    """Raised if the capture has no request with this API and version; the message names them."""


class CapturedAnswers:
    """The responses in a capture. Each is given once, in the captured order, before any is given again.

    A request gets the response to a captured request with the same body, or else with the same API and version. If the
    captured request had no response, this one gets none either. ApiVersions lists only the captured APIs and versions,
    so that another release of the client does not choose a version that cannot be answered.

    Args:
        steps: See `kproxy.replay.steps.build_steps`.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self._by_body: dict[tuple[_Key, bytes], _ExchangeQueue] = defaultdict(_ExchangeQueue)
        self._by_version: dict[_Key, _ExchangeQueue] = defaultdict(_ExchangeQueue)
        self._used: set[CapturedExchange] = set()
        self._api_versions: Message | None = None
        for step in steps:
            exchange = step.exchange
            if step.action is Action.SEND and exchange is not None and (request := exchange.request) is not None:
                key = request.api_key, request.version
                self._by_body[key, _body_bytes(request)].exchanges.append(exchange)
                self._by_version[key].exchanges.append(exchange)
                if exchange.response is not None and self._api_versions is None and _lists_versions(exchange.response):
                    self._api_versions = exchange.response
        keys = sorted(self._by_version)
        self._versions = {
            key: (key_versions[0], key_versions[-1])
            for key, group in groupby(keys, key=itemgetter(0))
            if (key_versions := [version for _, version in group])
        }

    def __len__(self) -> int:
        return sum(len(exchanges.exchanges) for exchanges in self._by_version.values())

    def __str__(self) -> str:
        return f"{len(self)} captured exchanges"

    def answer(self, frame: bytes, address: tuple[str, int]) -> CapturedAnswer:
        """Return the answer to a request.

        Args:
            frame: The request, with its length prefix.
            address: Host and port to advertise to the client for every broker.

        Raises:
            UnknownRequestError: The capture has no such request.
        """
        request = read_request(frame)
        key = request.api_key, request.version
        queue = self._by_body.get((key, _body_bytes(request))) or self._by_version.get(key)
        correlation_id = int.from_bytes(frame[8:12], "big", signed=True)
        if queue is None and key[0] == ApiKey.API_VERSIONS and self._api_versions is not None:
            return CapturedAnswer(api_versions(self._api_versions, key[1], correlation_id, self._versions), 0)
        if queue is None:
            raise UnknownRequestError(f"the capture has no {request.api or f'API {key[0]}'} v{key[1]}")
        exchange = queue.next(self._used)
        self._used.add(exchange)
        response = exchange.response
        if response is None:
            return CapturedAnswer(None, 0)
        delay_s = exchange.latency_us / 1e6
        if _lists_versions(response):
            return CapturedAnswer(api_versions(response, key[1], correlation_id, self._versions), delay_s)
        rewriter = AddressRewriter(lambda addresses, complete: [address] * len(addresses))
        action = rewriter.on_response(response.frame, RequestHeader(*key, response.correlation_id))
        captured_frame = action.frame if isinstance(action, Replace) else response.frame
        return CapturedAnswer(captured_frame[:4] + frame[8:12] + captured_frame[8:], delay_s)


class _ExchangeQueue:
    """The captured exchanges whose responses fit a request, in the captured order."""

    def __init__(self) -> None:
        self.exchanges: list[CapturedExchange] = []
        self._index: int = 0

    def next(self, used: set[CapturedExchange]) -> CapturedExchange:
        """Return the next exchange that has not been used, or else the last one."""
        last_index: Final = len(self.exchanges) - 1
        while self._index < last_index and self.exchanges[self._index] in used:
            self._index += 1
        return self.exchanges[self._index]


def _lists_versions(response: Message) -> bool:
    """Whether this is an ApiVersions response that decodes and has no error."""
    return response.api_key == ApiKey.API_VERSIONS and response.well_formed and not response.body["error_code"]


def _body_bytes(request: Message) -> bytes:
    return request.frame[request.body_start :]
