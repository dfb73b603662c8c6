"""The layout errors diagnosed in a run, by peer, so that each is diagnosed once."""

from __future__ import annotations

from collections import Counter

from dissectors.bounded import BoundedDict
from dissectors.diagnosis.diagnose import again, diagnose, repaired
from dissectors.edits import LOOSE
from dissectors.messages.diagnosis_result import Diagnosis
from dissectors.messages.message import Message

#: Messages (by server, API, version and direction) of which departures are kept, and how many of each.
MOST_MESSAGES = 2_000
MOST_EACH = 4

#: Searches that may find nothing in a row, of one message, before it is only tried now and then.
PATIENCE = 8

#: Decode warnings that reading at a wrong offset causes.
SUSPICIOUS = frozenset({"null", "bool", "utf8", "length", "tag_size", "implausible"})

_Key = tuple[str, int, int, bool]


class KnownDepartures:
    """The departures of a run."""

    def __init__(self) -> None:
        self._known: BoundedDict[_Key, list[Diagnosis]] = BoundedDict(MOST_MESSAGES)
        self._kinds: BoundedDict[tuple[str, bool], Counter[str]] = BoundedDict(MOST_MESSAGES)
        self._vain: BoundedDict[_Key, int] = BoundedDict(MOST_MESSAGES)

    def explain(self, message: Message, request: Message | None, server: str) -> Diagnosis | None:
        """The diagnosis of a frame: one that was made before if it fits, else a new one."""
        key = (server, message.api_key, message.version, message.is_request)
        known = self._known.touch(key, list)
        for each in known:
            if found := again(message, each):
                return found
        vain = self._vain.get(key, 0)
        if vain > PATIENCE and vain & (vain - 1):  # the 16th, 32nd, 64th time it is tried again
            self._vain[key] = vain + 1
            return None
        kinds = self._kinds.touch((server, message.is_request), Counter)
        diagnosis = diagnose(message, request, frozenset(kinds))
        if diagnosis is None or diagnosis.edit.kind in LOOSE:
            self._vain[key] = vain + 1
        else:
            self._vain[key] = 0
            kinds[diagnosis.edit.kind] += 1
            if len(known) < MOST_EACH:
                known.append(diagnosis)
        return diagnosis


def examine(message: Message, request: Message | None, learned: KnownDepartures, server: str) -> Message:
    """Find out how a frame departs, if it does not read well.

    Args:
        message: As read by the right layout; it is not changed.
        request: What a response answers, if that is known.
        learned: The departures that this run has seen so far; a new one is added.
        server: The address of the connection's server: its peers depart in their own ways.

    Returns:
        The message as it reads under its diagnosis, or the same message if there is none.
    """
    if message.opaque:
        return message
    reads = message.error is None and message.end == len(message.frame)
    if reads and not (message.decode_warnings and any(odd.kind in SUSPICIOUS for odd in message.decode_warnings)):
        return message
    diagnosis = learned.explain(message, request, server)
    return message if diagnosis is None else repaired(message, diagnosis)
