"""Edit: one way to write a layout wrong, as a value that can be applied, printed, and read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

from dissectors.wire.layout import Layout

#: Makes the layout that the edit writes in.
Apply = Callable[..., Layout]

#: Edits on top of each other, or in each other, that are read back; nobody has more.
MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class EditKind:
    """A kind of edit: its details, what it does to a layout, and its sentence.

    `details` are their types, by name. `apply(layout, field, **detail)` raises `EditError` where it does not fit.
    `values(values, field, **detail)` and `data(bytes, **detail)`, where there are any, act on the values of the body
    that is encoded, and on the whole frame without its length.
    """

    name: str
    details: Mapping[str, Any]
    apply: Apply
    sentence: Callable[..., str]
    values: Callable[..., Mapping[str, Any]] | None = None
    data: Callable[..., bytes] | None = None


class EditError(ValueError):
    """An edit that is none, or that does not fit a layout; a sentence."""


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
        name: Of the kind.
        details: Their names; the types are those of the arguments of `apply`.
        sentence: What is written wrongly: a template, or what makes it of the field and the details.
        values: See `EditKind`.
        data: The same.
    """

    def register(apply: Apply) -> Apply:
        types = get_type_hints(apply)
        says = sentence.format if isinstance(sentence, str) else sentence
        KINDS[name] = EditKind(name, {each: types[_argument(each)] for each in details}, apply, says, values, data)
        return apply

    return register


@dataclass(frozen=True, slots=True)
class Edit:
    """How a writer departs from a layout.

    `field` is the path in the schema: ``topics[].partitions[].leader_epoch``, ``header.client_id``, ``topics[]._tags``,
    ``*`` for the whole body. `then` is a second edit, of the layout that this one gives. docs/edits.md lists the kinds.
    """

    kind: str
    field: str = "*"
    detail: tuple[tuple[str, Any], ...] = ()
    then: Edit | None = None

    @classmethod
    def of(cls, kind: str, field: str = "*", /, **detail: Any) -> Edit:
        """An edit with its details by name; ``from_`` is ``from``.

        Raises:
            EditError: No such kind, or not its details.
        """
        known = KINDS.get(kind)
        if known is None:
            raise EditError(f"unknown edit kind {kind!r}; use one of {', '.join(KINDS)}")
        named = {name.rstrip("_"): value for name, value in detail.items()}
        if named.keys() != set(known.details):
            raise EditError(
                f"{kind} takes {', '.join(known.details) or 'no details'}, not {', '.join(named) or 'none'}"
            )
        for name, type_ in known.details.items():
            if not isinstance(named[name], type_) or isinstance(named[name], bool):
                said = getattr(type_, "__name__", str(type_))
                raise EditError(f"{name} of {kind} must be of type {said}, not {named[name]!r:.80}")
        return cls(kind, field, tuple((name, named[name]) for name in known.details))

    def followed_by(self, then: Edit) -> Edit:
        """This edit and on top of it another one."""
        return replace(self, then=then if self.then is None else self.then.followed_by(then))

    @property
    def steps(self) -> tuple[Edit, ...]:
        """The single edits, in the order in which they are applied."""
        return (replace(self, then=None), *(self.then.steps if self.then else ()))

    def apply(self, layout: Layout) -> Layout:
        """The layout that is written under this edit.

        Args:
            layout: A body, or a frame as `frame_layout` makes it.

        Raises:
            EditError: It does not fit this layout.
        """
        arguments = {_argument(name): value for name, value in self.detail}
        made = KINDS[self.kind].apply(layout, self.field, **arguments)
        return self.then.apply(made) if self.then else made

    def as_json(self) -> dict[str, Any]:
        """``{"kind", "field", "detail"}``, and ``"then"`` if a second one follows."""
        detail = {name: value.as_json() if isinstance(value, Edit) else value for name, value in self.detail}
        made: dict[str, Any] = {"kind": self.kind, "field": self.field, "detail": detail}
        if self.then is not None:
            made["then"] = self.then.as_json()
        return made

    def __str__(self) -> str:
        said = KINDS[self.kind].sentence(field=self.field, **{_argument(k): v for k, v in self.detail})
        return f"{said}, and {self.then}" if self.then else said


def parse(made: Mapping[str, Any]) -> Edit:
    """Read back what `Edit.as_json` gives.

    Raises:
        EditError: It is no edit.
    """
    return _parse(made, MOST_STEPS)


def _parse(made: Mapping[str, Any], most: int) -> Edit:
    if most == 0:
        raise EditError(f"an edit can contain at most {MOST_STEPS} other edits")
    try:
        name, field, detail, then = made["kind"], made["field"], dict(made.get("detail", {})), made.get("then")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise EditError('an edit is {"kind", "field", "detail"}') from None
    if not isinstance(name, str) or not isinstance(field, str):
        raise EditError("kind and field of an edit must be strings; e.g. topics[].partitions[].leader_epoch")
    inner = {each: _parse(value, most - 1) if isinstance(value, Mapping) else value for each, value in detail.items()}
    if not all(isinstance(each, str) for each in inner):
        raise EditError("the details of an edit must have names")
    edit = Edit.of(name, field, **inner)
    return edit.followed_by(_parse(then, most - 1)) if then is not None else edit


def _argument(name: str) -> str:
    return "from_" if name == "from" else name
