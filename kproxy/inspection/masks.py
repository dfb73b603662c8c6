"""`--mask`, `--mask-tag` and `--mask-text`: the parts of records that no output shows."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from kproxy.errors import UserError
from kproxy.trace.record_values import MASKED

if TYPE_CHECKING:
    from kproxy.inspection.text_masks import TextMasks

_PARTS: Final = ("key", "value", "header")
_ANY_DEPTH: Final = "**"


@dataclass(frozen=True, slots=True)
class _Mask:
    topic: str
    part: str
    path: tuple[str, ...]


class Masks:
    """What to mask: fields by paths, each ``[TOPIC:]PART[.FIELD...]``, fields by tags of schemas, and text.

    PART is ``key``, ``value`` or ``header``. It is followed by names of fields, or by the name of a header. TOPIC and
    names are shell patterns (``*``, ``?``, ``[a-z]``), and ``**`` stands for any number of fields. Elements of a list
    count as their list. ``value`` alone masks the whole value. `tags` are also patterns. `text_masks` apply to all
    topics.

    Raises:
        UserError: A mask is invalid.
    """

    def __init__(self, paths: Iterable[str], tags: Iterable[str] = (), text_masks: TextMasks | None = None) -> None:
        self._masks = [_parse_mask(path) for path in paths]
        self.tags = tuple(tags)
        self.text_masks = text_masks

    def __bool__(self) -> bool:
        return bool(self._masks or self.tags or self.text_masks)

    def applies(self, topic: str | None, part: str) -> bool:
        """Whether a mask may apply to a part of a topic's records. An unknown topic matches every pattern."""
        return any(self._matching_masks(topic, part))

    def masks_part(self, topic: str | None, part: str) -> bool:
        """Whether a whole part of a topic's records is masked."""
        return any(not mask.path for mask in self._matching_masks(topic, part))

    def masked(self, data: Any, topic: str | None, part: str) -> Any:
        """Return a copy of the tree without the fields that paths mask. Data that is not a tree is masked."""
        for mask in self._matching_masks(topic, part):
            data = _mask_path(data, mask.path) if isinstance(data, dict | list) else MASKED
        return data

    def masks_header(self, topic: str | None, name: str) -> bool:
        """Whether a header's value is masked. The case of its name is ignored, because it differs between writers."""
        name = name.lower()
        return any(
            not mask.path or fnmatchcase(name, mask.path[0].lower()) for mask in self._matching_masks(topic, "header")
        )

    def _matching_masks(self, topic: str | None, part: str) -> list[_Mask]:
        return [mask for mask in self._masks if mask.part == part and (topic is None or fnmatchcase(topic, mask.topic))]


def without_names(data: Any, names: Set[str]) -> Any:
    """Return a copy of the tree without the values of fields with these names. Data that is not a tree is masked."""
    return _mask_names(data, names) if isinstance(data, dict | list) else MASKED


def _mask_names(data: Any, names: Set[str]) -> Any:
    if isinstance(data, list):
        return [_mask_names(element, names) for element in data]
    if isinstance(data, dict):
        return {name: MASKED if name in names else _mask_names(inner, names) for name, inner in data.items()}
    return data


def _parse_mask(text: str) -> _Mask:
    topic, colon, path = text.rpartition(":")
    part, *names = path.split(".")
    if part not in _PARTS or not all(names):
        raise UserError(f"--mask {text}: pass [TOPIC:]key, value or header, then names: value.card.number")
    if part == "header" and names:
        names = [".".join(names)]  # names of headers have dots
    return _Mask(topic if colon else "*", part, tuple(names))


def _mask_path(data: Any, path: tuple[str, ...]) -> Any:
    if not path:
        return MASKED
    if isinstance(data, list):
        return [_mask_path(element, path) for element in data]
    if not isinstance(data, dict):
        return data
    first, remaining = path[0], path[1:]
    if first == _ANY_DEPTH:
        if remaining:
            data = _mask_path(data, remaining)
        return {name: _mask_path(inner, path) if remaining else MASKED for name, inner in data.items()}
    return {name: _mask_path(inner, remaining) if fnmatchcase(name, first) else inner for name, inner in data.items()}
