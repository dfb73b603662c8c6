"""Finds an API by the name that a caller gives, with a helpful error."""

from __future__ import annotations

from difflib import get_close_matches

from dissectors import schemas
from dissectors.schemas import Api


def find_api(name: str, version: int) -> Api:
    """Return the API with this name, which must have the version.

    Raises:
        ValueError: There is no such API, or it does not have the version; the message has what may be meant.
    """
    api = schemas.api_by_name(name)
    if api is None:
        names = {known.name.lower(): known.name for known in schemas.apis()}
        close = get_close_matches(name.lower(), names, n=1)
        hint = f"did you mean {names[close[0]]}?" if close else "dissectors.schemas.apis() lists them"
        raise ValueError(f"unknown API {name!r}: {hint}")
    if not api.min_version <= version <= api.max_version:
        raise ValueError(f"{api.name} has no version {version}: use {api.min_version} to {api.max_version}")
    return api
