"""Edit: one way to write a layout incorrectly, as a value that can be applied, printed and parsed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from inspect import Parameter, signature
from typing import Any, get_type_hints

from dissectors.wire.layout import Layout

#: (layout, field, **detail) -> the edited layout.
Apply = Callable[..., Layout]

#: The deepest nesting of edits that `parse` accepts.
MAX_STEPS = 8


@dataclass(frozen=True, slots=True)
class EditKind:
    """A kind of edit: its details, its effect on a layout, and its sentence.

    `details` maps the names of the details to their types, and `defaults` the optional ones to their default values.
    `apply(layout, field, **detail)` raises `EditError` if the edit does not apply to the layout. The optional
    `values(values, field, **detail)` changes the values of the body before encoding; the optional
    `data(bytes, **detail)` changes the encoded frame, without its length prefix.
    """

    name: str
    details: Mapping[str, Any]
    apply: Apply
    sentence: Callable[..., str]
    values: Callable[..., Mapping[str, Any]] | None = None
    data: Callable[..., bytes] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)


class EditError(ValueError):
    """Raised when an edit is invalid or does not apply to a layout. The message can be shown to the user as it is."""


KINDS: dict[str, EditKind] = {}


def kind(
    name: str,
    *details: str,
    sentence: str | Callable[..., str],
    values: Callable[..., Mapping[str, Any]] | None = None,
    data: Callable[..., bytes] | None = None,
) -> Callable[[Apply], Apply]:
    """Register a kind of edit by what it does to a layout.

    Args:
        name: Name of the kind.
        details: Names of its details; their types are taken from the arguments of `apply`.
        sentence: What is written incorrectly: a template, or a function of the field and the details.
        values: See `EditKind`.
        data: See `EditKind`.
    """

    def register(apply: Apply) -> Apply:
        types = get_type_hints(apply)
        default_values = {
            name: parameter.default
            for name, parameter in signature(apply).parameters.items()
            if parameter.default is not Parameter.empty
        }
        render_sentence = sentence.format if isinstance(sentence, str) else sentence
        detail_types = {detail: types[_argument_name(detail)] for detail in details}
        KINDS[name] = EditKind(name, detail_types, apply, render_sentence, values, data, default_values)
        return apply

    return register


@dataclass(frozen=True, slots=True)
class Edit:
    """How a writer deviates from a layout.

    `field` is the path in the schema: ``topics[].partitions[].leader_epoch``, ``header.client_id``, ``topics[]._tags``,
    ``*`` for the whole body. `then` is a second edit, applied to the result of this one. docs/edits.md lists the kinds.
    """

    kind: str
    field: str = "*"
    detail: tuple[tuple[str, Any], ...] = ()
    then: Edit | None = None

    @classmethod
    def of(cls, kind: str, field: str = "*", /, **detail: Any) -> Edit:
        """Build an edit from its details by name; pass ``from_`` for ``from``.

        Raises:
            EditError: The kind is unknown, or the details have wrong names or types.
        """
        edit_kind = KINDS.get(kind)
        if edit_kind is None:
            raise EditError(f"unknown edit kind {kind!r}; use one of {', '.join(KINDS)}")
        values_by_name = {**edit_kind.defaults, **{name.rstrip("_"): value for name, value in detail.items()}}
        if values_by_name.keys() != set(edit_kind.details):
            raise EditError(
                f"{kind} takes {', '.join(edit_kind.details) or 'no details'}, not "
                f"{', '.join(values_by_name) or 'none'}"
            )
        for name, type_ in edit_kind.details.items():
            if not isinstance(values_by_name[name], type_) or isinstance(values_by_name[name], bool):
                type_name = getattr(type_, "__name__", str(type_))
                raise EditError(f"{name} of {kind} must be of type {type_name}, not {values_by_name[name]!r:.80}")
        return cls(kind, field, tuple((name, values_by_name[name]) for name in edit_kind.details))

    def followed_by(self, next_edit: Edit) -> Edit:
        """Return this edit followed by another one."""
        return replace(self, then=next_edit if self.then is None else self.then.followed_by(next_edit))

    @property
    def steps(self) -> tuple[Edit, ...]:
        """The individual edits, in the order in which they are applied."""
        return (replace(self, then=None), *(self.then.steps if self.then else ()))

    def apply(self, layout: Layout) -> Layout:
        """Return the edited layout.

        Args:
            layout: The layout of a body, or of a frame from `frame_layout`.

        Raises:
            EditError: The edit does not apply to this layout.
        """
        arguments = {_argument_name(name): value for name, value in self.detail}
        edited = KINDS[self.kind].apply(layout, self.field, **arguments)
        return self.then.apply(edited) if self.then else edited

    def as_json(self) -> dict[str, Any]:
        """Return ``{"kind", "field", "detail"}``, plus ``"then"`` if a second edit follows."""
        detail = {name: value.as_json() if isinstance(value, Edit) else value for name, value in self.detail}
        json: dict[str, Any] = {"kind": self.kind, "field": self.field, "detail": detail}
        if self.then is not None:
            json["then"] = self.then.as_json()
        return json

    def __str__(self) -> str:
        sentence = KINDS[self.kind].sentence(field=self.field, **{_argument_name(k): v for k, v in self.detail})
        return f"{sentence}, and {self.then}" if self.then else sentence


def parse(json: Mapping[str, Any]) -> Edit:
    """Parse the result of `Edit.as_json`.

    Raises:
        EditError: The value is not an edit.
    """
    return _parse(json, MAX_STEPS)


def _parse(json: Mapping[str, Any], depth: int) -> Edit:
    if depth == 0:
        raise EditError(f"an edit can contain at most {MAX_STEPS} other edits")
    try:
        name, field, detail, next_json = json["kind"], json["field"], dict(json.get("detail", {})), json.get("then")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise EditError('an edit is {"kind", "field", "detail"}') from None
    if not isinstance(name, str) or not isinstance(field, str):
        raise EditError("kind and field of an edit must be strings; e.g. topics[].partitions[].leader_epoch")
    details = {key: _parse(value, depth - 1) if isinstance(value, Mapping) else value for key, value in detail.items()}
    if not all(isinstance(key, str) for key in details):
        raise EditError("the details of an edit must have names")
    edit = Edit.of(name, field, **details)
    return edit.followed_by(_parse(next_json, depth - 1)) if next_json is not None else edit


def _argument_name(name: str) -> str:
    return "from_" if name == "from" else name
