"""PendingRequests: the requests of one connection that are waiting for a response."""

from __future__ import annotations

from typing import Final, NamedTuple

from dissectors.interception.interceptor import Interceptor

#: The maximum number of remembered requests. If more are waiting, the response to the oldest passes unseen.
MAX_PENDING: Final = 10_000


class Handling(NamedTuple):
    """What happens to the frames of one API version.

    Attributes:
        interceptors: The interceptors of its requests, and the interceptors of its responses.
        tracked: Whether its responses must be recognized: an interceptor wants them, or an `Answer` may wait for them.
        reads_acks: Whether acks must be read to know if a response follows: for Produce, if an `Answer` may wait.
    """

    api_key: int
    api_version: int
    interceptors: tuple[tuple[Interceptor, ...], tuple[Interceptor, ...]]
    tracked: bool
    reads_acks: bool


class PendingRequests:
    """Pairs responses with requests. Kafka responds in order: a response also removes older requests.

    Correlation ids are the 4 bytes from the frame.
    """

    def __init__(self) -> None:
        self._waiting: dict[bytes, Handling] = {}  # by correlation id, oldest first
        self._answers: dict[bytes, bytes] = {}  # interceptors' responses that wait for responses to older requests
        #: Returns the handling of the request that waits for this response, None if there is no such request.
        self.find = self._waiting.get

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, correlation_id: bytes, handling: Handling, answer: bytes | None = None) -> list[bytes]:
        """Add a request, with its response if an interceptor answers it; return the answers to send now."""
        waiting, answers = self._waiting, self._answers
        waiting.pop(correlation_id, None)  # a request that never got a response can have the same id
        answers.pop(correlation_id, None)
        waiting[correlation_id] = handling
        if len(waiting) > MAX_PENDING:
            oldest = next(iter(waiting))
            del waiting[oldest]
            answers.pop(oldest, None)
        if answer is None:
            return []
        answers[correlation_id] = answer
        return self._take_due_answers()

    def complete(self, correlation_id: bytes) -> list[bytes]:
        """Remove the request whose response has passed; return the answers that can be sent now."""
        due_answers = []
        while self._waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            if oldest in self._answers:
                due_answers.append(self._answers.pop(oldest))
            if oldest == correlation_id:
                break
        return due_answers + self._take_due_answers() if self._answers else due_answers

    def _take_due_answers(self) -> list[bytes]:
        due_answers = []
        while self._waiting and (oldest := next(iter(self._waiting))) in self._answers:
            del self._waiting[oldest]
            due_answers.append(self._answers.pop(oldest))
        return due_answers
