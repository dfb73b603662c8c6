"""Waits for the response from a group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from kproxy.broker.groups.group import Respond


async def wait_for_response(call: Callable[[Respond], None]) -> Mapping[str, Any]:
    """Call a group and wait for its response. As in Kafka, the wait continues if the client disconnects."""
    future: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
    call(lambda body: None if future.done() else future.set_result(body))
    return await future
