"""The generated names are those of the data files."""

from __future__ import annotations

from pathlib import Path

from dissectors import schemas
from dissectors.schemas.codes import ApiKey, Error
from dissectors.schemas.importer.data import CODES, FILES, SchemaData

DIRECTORY = Path(schemas.__file__).parent


def test_generated_module_is_up_to_date() -> None:
    data = SchemaData.parse({name: (DIRECTORY / name).read_bytes() for name in FILES})
    assert data.files()[CODES] == (DIRECTORY / CODES).read_bytes(), "run: kproxy schemas import"


def test_generated_names_and_numbers_match_the_schemas() -> None:
    assert {error.value: error.name for error in Error} == {error.code: error.name for error in schemas.errors()}
    for api_key in ApiKey:
        api = schemas.api(api_key.value)
        assert api is not None
        assert api.name.upper() == api_key.name.replace("_", "")
