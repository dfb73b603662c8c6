"""The KIPs of each version are read from the comments before the fields."""

from __future__ import annotations

from dissectors import schemas
from dissectors.schemas.importer.kips import kips

REQUEST = """// Licensed under KIP-1
{
  "apiKey": 3,
  "name": "CatRequest",
  // Version 1 adds the tail,
  // see KIP-20 and KIP_21.
  //
  // This paragraph is about KIP-30 and no version.
  // Versions 3 and 4 are about KIP-40.
  "validVersions": "0-4",
  "fields": [
    // Version 2 is about a field (KIP-50).
    { "name": "Tail" }
  ]
}"""


def test_kips_are_read_from_paragraphs_about_a_version() -> None:
    response = '{"name": "CatResponse",\n  // Version 1 (KIP-19)\n  // Version 2 is the same.\n}'
    assert kips([REQUEST, response, '{"name": "CatRecord"}']) == {"Cat": {"1": [19, 20, 21], "3": [40]}}


def test_schemas_have_the_kips_of_kafka() -> None:
    assert schemas.kips("JoinGroup", 8) == (800,)
    assert schemas.kips("JoinGroup", 7) == schemas.kips("None", 0) == ()
