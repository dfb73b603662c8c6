"""UpdateFeatures (KIP-584): raises and lowers the levels of the cluster's features.

Leaves out: the effect of most levels, and the check whether a lower level would lose data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.features import Features
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request

_UPGRADE: Final = 1


@api("UpdateFeatures")
def update_features(request: Request) -> Body:
    """Update all features or none. The response has one error; before version 2, it is repeated for each feature."""
    body, features = request.body, request.cluster.part(Features)
    updates = body["feature_updates"]
    try:
        require(request, "ALTER", "CLUSTER")
        counts = Counter(update["feature"] for update in updates)
        if any(count > 1 for count in counts.values()):
            raise ApiError(Error.INVALID_REQUEST, "A feature is named twice.")
        for update in updates:
            _check_update(features, update)
    except ApiError as api_error:
        return {"error_code": api_error.error, "error_message": api_error.message}
    if not body.get("validate_only", False):
        for update in updates:
            features.finalize(update["feature"], update["max_version_level"])
    return {
        "error_message": None,
        "results": [{"feature": update["feature"], "error_message": None} for update in updates],
    }


def _check_update(features: Features, update: Mapping[str, Any]) -> None:
    name, level = update["feature"], update["max_version_level"]
    supported, current_level = features.known.get(name), features.level(name)
    prefix = "The update failed for all features since the following feature had an error: "
    message = f"{prefix}Invalid update version {level} for feature {name}. "
    if (
        supported is None
        or not (level == 0 or supported.lowest <= level <= supported.highest)
        or level < supported.lowest
    ):
        unsupported = f"versions {supported.lowest}-{supported.highest}" if supported else "the feature"
        raise ApiError(Error.INVALID_UPDATE_VERSION, f"{message}Local controller does not support {unsupported}.")
    is_upgrade = not update["allow_downgrade"] if "allow_downgrade" in update else update["upgrade_type"] == _UPGRADE
    if level < current_level and is_upgrade:
        raise ApiError(
            Error.INVALID_UPDATE_VERSION, f"{message}Can't downgrade the version of this feature without setting the "
            "upgrade type to either safe or unsafe downgrade."
        )  # fmt: skip
