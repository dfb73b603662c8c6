"""Every Kafka request can be encoded with its defaults and decoded again."""

from __future__ import annotations

import pytest

from dissectors import schemas
from dissectors.messages.message import read_request
from kproxy.client.request import ClientRequest


@pytest.mark.parametrize("api", schemas.apis(), ids=lambda api: api.name)
def test_request_with_default_values_can_be_decoded(api: schemas.Api) -> None:
    for version in api.versions:
        frame = ClientRequest(api, version, {}).frame(7, "me")
        message = read_request(frame)
        assert (message.api, message.version, message.error) == (api.name, version, None)
        assert message.well_formed
        assert message.header["correlation_id"] == 7
