"""ListGroups: returns the groups that this broker coordinates, by state and type.

Leaves out: nothing.
"""

from __future__ import annotations

from kproxy.broker.access import CLUSTER, is_allowed
from kproxy.broker.coordinators import find_coordinator_node
from kproxy.broker.groups.groups import Groups
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request


@api("ListGroups")
def list_groups(request: Request) -> Body:
    """Return the groups that match the filters, which are case-insensitive; an empty filter matches all."""
    states = {state.strip().lower() for state in request.body.get("states_filter", ())}
    types = {name.strip().lower() for name in request.body.get("types_filter", ())}
    sees_all = is_allowed(request, "DESCRIBE", "CLUSTER", CLUSTER)
    return {
        "groups": [
            {
                "group_id": group.id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.type,
            }
            for group in request.cluster.part(Groups)
            if find_coordinator_node(request.cluster, group.id) is request.node
            and (not states or group.state.lower() in states)
            and (not types or group.type in types)
            and (sees_all or is_allowed(request, "DESCRIBE", "GROUP", group.id))
        ]
    }
