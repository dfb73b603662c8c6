"""The layout errors diagnosed in a run, by peer, so that each needs only one diagnosis."""

from __future__ import annotations

from dissectors.bounded import BoundedDict
from dissectors.diagnosis.diagnose import LIKELY_CONFIDENCE, apply_diagnosis, diagnose, match_known_diagnosis
from dissectors.diagnosis.search import Habit, habits
from dissectors.edits import LOOSE_KINDS
from dissectors.messages.diagnosis_result import Diagnosis
from dissectors.messages.message import Message

#: The most messages (by server, API, version, direction) with known deviations, and the most deviations per message.
MAX_MESSAGES = 2_000
MAX_PER_ENTRY = 4

#: After this many failed searches for a message, most of its frames are skipped.
MAX_FAILED_SEARCHES = 8

#: Decode warnings that result from reading at a wrong offset.
SUSPICIOUS_WARNINGS = frozenset({"null", "bool", "utf8", "length", "tag_size", "tag_order", "implausible"})

_Key = tuple[str, int, int, bool]


class KnownDeviations:
    """The deviations found in a run."""

    def __init__(self) -> None:
        self._deviations: BoundedDict[_Key, list[Diagnosis]] = BoundedDict(MAX_MESSAGES)
        self._habits: BoundedDict[tuple[str, bool], set[Habit]] = BoundedDict(MAX_MESSAGES)
        self._failed_searches: BoundedDict[_Key, int] = BoundedDict(MAX_MESSAGES)

    def explain(self, message: Message, request: Message | None, server: str) -> Diagnosis | None:
        """Return the diagnosis of a frame: a known one if it fits, otherwise a new one."""
        key = (server, message.api_key, message.version, message.is_request)
        deviations = self._deviations.touch(key, list)
        for deviation in deviations:
            if known_diagnosis := match_known_diagnosis(message, deviation):
                return known_diagnosis
        failed_searches = self._failed_searches.get(key, 0)
        if failed_searches > MAX_FAILED_SEARCHES and failed_searches & (
            failed_searches - 1
        ):  # searched again at the 16th, 32nd, 64th frame
            self._failed_searches[key] = failed_searches + 1
            return None
        known_habits = self._habits.touch((server, message.is_request), set)
        diagnosis = diagnose(message, request, frozenset(known_habits))
        if diagnosis is None or diagnosis.edit.kind in LOOSE_KINDS:
            self._failed_searches[key] = failed_searches + 1
        else:
            self._failed_searches[key] = 0
            if diagnosis.confidence >= LIKELY_CONFIDENCE:
                known_habits.update(habits(diagnosis.edit))
            if len(deviations) < MAX_PER_ENTRY:
                deviations.append(diagnosis)
        return diagnosis


def examine(message: Message, request: Message | None, known_deviations: KnownDeviations, server: str) -> Message:
    """Diagnose a frame that does not decode.

    Args:
        message: The message as decoded by the correct layout; it is not changed.
        request: The request of a response, if known.
        known_deviations: The deviations found in this run so far; new ones are added.
        server: The address of the connection's server; deviations are kept per server.

    Returns:
        The message as decoded under its diagnosis, or the same message if there is none.
    """
    if message.opaque:
        return message
    is_fully_read = message.error is None and message.end == len(message.frame)
    if (
        is_fully_read
        and not message.unusual
        and not any(warning.kind in SUSPICIOUS_WARNINGS for warning in message.decode_warnings)
    ):
        return message
    diagnosis = known_deviations.explain(message, request, server)
    return message if diagnosis is None else apply_diagnosis(message, diagnosis)
