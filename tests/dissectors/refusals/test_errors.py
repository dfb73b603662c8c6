"""Every error code has a judgement, and the tables agree with Kafka's own facts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from dissectors import refusals, schemas
from dissectors.refusals import ErrorJudgement, Nature
from dissectors.refusals.errors import by_api, cluster, groups, logs, security, transactions
from dissectors.schemas.codes import Error

TABLES = (logs, groups, transactions, cluster, security)
#: Clients give up after these errors although Kafka calls them retriable: a retry would change nothing.
FINAL_ALTHOUGH_RETRIABLE = {
    Error.ELECTION_NOT_NEEDED,
    ("DeleteTopics", Error.UNKNOWN_TOPIC_OR_PARTITION),
    ("DeleteTopics", Error.UNKNOWN_TOPIC_ID),
    ("Fetch", Error.CORRUPT_MESSAGE),  # the segment stays damaged until another broker leads
    *((api, error) for api, error in by_api.ERRORS if error == Error.UNKNOWN_TOPIC_OR_PARTITION and api != "Metadata"),
}


def all_judgements() -> Iterator[tuple[Any, ErrorJudgement]]:
    for code, judgement in refusals.generic_judgements().items():
        yield Error(code), judgement
    yield from by_api.ERRORS.items()


def judgement_id(value: Any) -> str:
    if isinstance(value, ErrorJudgement):
        return ""
    return f"{value[0]}-{value[1].name}" if isinstance(value, tuple) else str(value.name)


def test_every_error_code_has_a_judgement() -> None:
    assert {error.code for error in schemas.errors()} - {0} == set(refusals.generic_judgements())
    assert sum(len(table.ERRORS) for table in TABLES) == len(refusals.generic_judgements()), "an error is in two tables"


def test_unknown_error_codes_have_a_judgement() -> None:
    assert refusals.judgement("Fetch", 503) is refusals.UNKNOWN
    assert refusals.judgement("Fetch", -2) is refusals.UNKNOWN


def test_api_may_have_its_own_judgement() -> None:
    produce = refusals.judgement("Produce", Error.CORRUPT_MESSAGE)
    fetch = refusals.judgement("Fetch", Error.CORRUPT_MESSAGE)
    assert (produce.blame, fetch.blame) == ("client", "broker")
    assert (
        refusals.judgement("ListOffsets", Error.CORRUPT_MESSAGE) is refusals.generic_judgements()[Error.CORRUPT_MESSAGE]
    )


@pytest.mark.parametrize(("key", "judgement"), list(all_judgements()), ids=judgement_id)
def test_retriable_errors_are_not_judged_final(key: Any, judgement: ErrorJudgement) -> None:
    error = key[1] if isinstance(key, tuple) else key
    facts = schemas.error(error)
    assert facts is not None
    if facts.retriable and key not in FINAL_ALTHOUGH_RETRIABLE:
        assert judgement.nature is not Nature.FINAL


@pytest.mark.parametrize(("key", "judgement"), list(all_judgements()), ids=judgement_id)
def test_texts_of_a_judgement_fit_into_a_sentence(key: Any, judgement: ErrorJudgement) -> None:
    assert judgement.blame in ("broker", "client")
    for text in (judgement.meaning, judgement.change):
        assert text
        assert not text.endswith(".")
        assert re.match(r"[a-z]|AC|CRC", text), text
    assert judgement.grace_period > 0


@pytest.mark.parametrize(("key", "judgement"), list(all_judgements()), ids=judgement_id)
def test_fields_of_a_judgement_are_request_fields(key: Any, judgement: ErrorJudgement) -> None:
    apis = [key[0]] if isinstance(key, tuple) else [api.name for api in schemas.apis()]
    for name in judgement.fields:
        assert any(name in field_names(schemas.message(f"{api}Request")["fields"]) for api in apis), name


def field_names(fields: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of fields at any depth, in the snake case of decoded values."""
    names = set()
    for field in fields:
        names.add(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", field["name"]).lower())
        names |= field_names(field.get("fields", ()))
    return names
