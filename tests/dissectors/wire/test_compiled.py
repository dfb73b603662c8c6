import struct

import pytest

from dissectors.hexdump import unhex
from dissectors.wire import compiled
from dissectors.wire.compiled import ERROR_CODE, decoder, min_bytes
from dissectors.wire.layout import Field, Layout, layout
from tests.dissectors.shapes import PORT, TAGGED, single_field

NUMBERS = Layout(
    "Numbers",
    (
        Field("flag", "bool"),
        Field("tiny", "int8"),
        Field("small", "int16"),
        Field("port", "uint16"),
        Field("int", "int32"),
        Field("crc", "uint32"),
        Field("long", "int64"),
        Field("ratio", "float64"),
        Field("id", "uuid"),
    ),
)
FLEXIBLE_PORT = Layout("Port", (Field("port", "int8"),), flexible=True)
PAIR = Layout("Pair", (Field("flag", "bool"), Field("n", "int16")))
#: What a decoder raises on bytes that are not entirely regular.
IRREGULAR = (ValueError, IndexError, struct.error)


def read_values(shape: Layout, text: str) -> dict[str, object]:
    data = unhex(text)
    values, end, _ = decoder(shape)(data, 0)
    assert end == len(data)
    return values


def test_every_fixed_width_type_is_read() -> None:
    values = read_values(
        NUMBERS,
        """
        01                                               # flag
        ff                                               # tiny
        80 00                                            # small
        ff ff                                            # port
        ff ff ff fe                                      # int
        ff ff ff fe                                      # crc
        00 00 00 01 00 00 00 00                          # long
        3f f8 00 00 00 00 00 00                          # ratio
        00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 01  # id
        """,
    )
    assert values == {
        "flag": True,
        "tiny": -1,
        "small": -(1 << 15),
        "port": 65535,
        "int": -2,
        "crc": (1 << 32) - 2,
        "long": 1 << 32,
        "ratio": 1.5,
        "id": "AAAAAAAAAAAAAAAAAAAAAQ",
    }


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    [
        pytest.param(single_field("string", length="int16"), "00 02 68 69", "hi", id="string"),
        pytest.param(single_field("string", length="int16", nullable=True), "ff ff", None, id="null string"),
        pytest.param(single_field("string", length="uvarint"), "03 68 69", "hi", id="compact string"),
        pytest.param(single_field("string", length="uvarint"), "01", "", id="empty compact string"),
        pytest.param(single_field("string", length="uvarint", nullable=True), "00", None, id="null compact string"),
        pytest.param(
            single_field("string", length="uvarint"), "81 01" + " 78" * 128, "x" * 128, id="long compact string"
        ),
        pytest.param(single_field("bytes", length="int32"), "00 00 00 01 ff", b"\xff", id="bytes"),
        pytest.param(single_field("bytes", length="uvarint"), "02 ff", b"\xff", id="compact bytes"),
        pytest.param(
            single_field("int32", array=True, length="int32"),
            "00 00 00 02 00 00 00 07 ff ff ff ff",
            [7, -1],
            id="numbers",
        ),
        pytest.param(single_field("int8", array=True, length="uvarint"), "03 01 02", [1, 2], id="compact numbers"),
        pytest.param(single_field("int32", array=True, length="uvarint"), "01", [], id="no numbers"),
        pytest.param(
            single_field("int32", array=True, length="int32", nullable=True), "ff ff ff ff", None, id="null array"
        ),
        pytest.param(single_field("bool", array=True, length="uvarint"), "03 01 00", [True, False], id="booleans"),
        pytest.param(
            single_field("uuid", array=True, length="uvarint"),
            "02" + " 00" * 16,
            ["AAAAAAAAAAAAAAAAAAAAAA"],
            id="uuids",
        ),
        pytest.param(
            single_field("string", array=True, length="int32", element_length="int16"),
            "00 00 00 02 00 01 61 00 00",
            ["a", ""],
            id="strings",
        ),
        pytest.param(
            single_field("bytes", array=True, length="int32", element_length="int32"),
            "00 00 00 01 00 00 00 01 61",
            [b"a"],
            id="byte strings",
        ),
        pytest.param(
            single_field("string", array=True, length="uvarint", element_length="uvarint"),
            "02 02 61",
            ["a"],
            id="compact strings",
        ),
        pytest.param(single_field("struct", struct=PORT), "07", {"port": 7}, id="struct"),
        pytest.param(
            single_field("struct", nullable=True, length="int8", struct=PORT),
            "01 07",
            {"port": 7},
            id="struct that may be null",
        ),
        pytest.param(single_field("struct", nullable=True, length="int8", struct=PORT), "ff", None, id="null struct"),
        pytest.param(
            single_field("struct", array=True, length="int32", struct=PAIR),
            "00 00 00 02 01 00 02 00 00 03",
            [{"flag": True, "n": 2}, {"flag": False, "n": 3}],
            id="fixed-width structs",
        ),
        pytest.param(
            single_field("struct", array=True, length="uvarint", struct=FLEXIBLE_PORT),
            "03 01 00 02 00",
            [{"port": 1}, {"port": 2}],
            id="flexible structs",
        ),
    ],
)
def test_every_shape_is_read(shape: Layout, text: str, value: object) -> None:
    assert read_values(shape, text) == {"it": value}


def test_fixed_width_structs_decode_their_uuids() -> None:
    pair = Layout("Pair", (Field("id", "uuid"), Field("n", "int8")))
    values = read_values(single_field("struct", array=True, length="uvarint", struct=pair), "02" + " 00" * 16 + " 05")
    assert values == {"it": [{"id": "AAAAAAAAAAAAAAAAAAAAAA", "n": 5}]}


def test_records_are_returned_as_a_view_without_a_copy() -> None:
    frame = unhex("00 00 00 00  00 00 00 02 61 62")
    values, _, _ = decoder(single_field("records", length="int32"))(frame, 4)
    view = values["it"]
    assert isinstance(view, memoryview)
    assert view.obj is frame
    assert bytes(view) == b"ab"


def test_records_in_nested_structs_are_views() -> None:
    batch = Layout("Inner", (Field("records", "records", length="int32"),))
    [row] = decoder(single_field("struct", array=True, length="int32", struct=batch))(unhex("00000001 00000001 61"), 0)[
        0
    ]["it"]
    assert isinstance(row["records"], memoryview)


def test_known_tags_become_fields() -> None:
    assert read_values(TAGGED, "00 00 00") == {"error_code": 0}
    assert read_values(TAGGED, "00 00  02  00 03 03 68 69  01 04 00 00 00 07") == {
        "error_code": 0,
        "cluster_id": "hi",
        "epoch": 7,
    }
    assert read_values(TAGGED, "00 00  01  02 02 01 09") == {"error_code": 0, "where": {"port": 9}}
    assert read_values(TAGGED, "00 00  01  02 01 00") == {"error_code": 0, "where": None}


def test_unknown_tags_are_kept() -> None:
    assert read_values(TAGGED, "00 00  02  05 02 61 62  80 01 00") == {
        "error_code": 0,
        "_tags": [[5, b"ab"], [128, b""]],
    }
    long_tag = "00 00  01  07 80 01" + " 78" * 128
    assert read_values(TAGGED, long_tag) == {"error_code": 0, "_tags": [[7, b"x" * 128]]}


def test_more_than_127_tags_are_read() -> None:
    tags = b"".join(bytes([tag]) + b"\x00" for tag in range(10, 128)) + b"".join(
        bytes([0x80 + tag, 1]) + b"\x00" for tag in range(20)
    )
    values, end, _ = decoder(TAGGED)(unhex("00 00  8a 01") + tags, 0)
    assert end == 4 + len(tags)
    assert [tag for tag, _ in values["_tags"]] == list(range(10, 148))


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        pytest.param(single_field("bool"), "02", id="boolean of 2"),
        pytest.param(single_field("int32"), "00 00 00", id="number cut off"),
        pytest.param(single_field("string", length="int16"), "00 03 61 62", id="string cut off"),
        pytest.param(single_field("string", length="int16"), "00 01 ff", id="no UTF-8"),
        pytest.param(single_field("string", length="int16"), "ff ff", id="null string"),
        pytest.param(single_field("string", length="int16", nullable=True), "ff fe", id="length of -2"),
        pytest.param(single_field("string", length="uvarint"), "00", id="null compact string"),
        pytest.param(single_field("string", length="uvarint"), "82 00 61", id="length in more bytes than it needs"),
        pytest.param(single_field("string", length="uvarint"), "", id="no length"),
        pytest.param(single_field("int32", array=True, length="int32"), "7f ff ff ff", id="array of 2^31"),
        pytest.param(single_field("int32", array=True, length="int32"), "ff ff ff ff", id="null array"),
        pytest.param(single_field("bool", array=True, length="uvarint"), "02 02", id="boolean of 2 in an array"),
        pytest.param(single_field("struct", nullable=True, length="int8", struct=NUMBERS), "02", id="mark of 2"),
        pytest.param(TAGGED, "00 00  02 01 04 00 00 00 07  01 04 00 00 00 07", id="tag twice"),
        pytest.param(TAGGED, "00 00  02 06 00 05 00", id="tags out of order"),
        pytest.param(TAGGED, "00 00  01 05 09 00", id="tag over the end"),
        pytest.param(TAGGED, "00 00  01 01 05 00 00 00 07 00", id="tag longer than its value"),
        pytest.param(TAGGED, "00 00  01 02 01 02", id="mark of 2 in a tag"),
        pytest.param(TAGGED, "00 00  7f 00 00", id="tags that cannot be there"),
    ],
)
def test_irregular_bytes_are_left_to_the_walk(shape: Layout, text: str) -> None:
    with pytest.raises(IRREGULAR):
        decoder(shape)(unhex(text), 0)


def test_decoder_is_compiled_once() -> None:
    assert decoder(layout("FetchRequest", 12)) is decoder(layout("FetchRequest", 12))


@pytest.mark.parametrize(
    ("shape", "minimum"),
    [
        (NUMBERS, 46),
        (TAGGED, 3),
        (single_field("string", length="int16"), 2),
        (single_field("bytes", length="int32"), 4),
        (single_field("struct", struct=TAGGED), 3),
        (single_field("struct", struct=NUMBERS, nullable=True, length="int8"), 1),
        (single_field("struct", struct=NUMBERS, array=True, length="uvarint"), 1),
    ],
)
def test_minimum_size_of_a_struct_is_known(shape: Layout, minimum: int) -> None:
    assert min_bytes(shape) == minimum


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        ("00 00  02 01 00 00  00", 0),
        ("00 03  02 01 00 00  00", ERROR_CODE),
        ("00 00  02 01 00 03  00", ERROR_CODE),
        ("00 00  02 01 00 00  01 05 01 00", compiled.TAGGED),
        ("00 03  02 01 00 00  01 05 01 00", compiled.TAGGED | ERROR_CODE),
        ("00 00  02 01 00 00  01 07 02 00 03", compiled.TAGGED | ERROR_CODE),
    ],
)
def test_flags_show_that_tags_and_error_codes_were_read(text: str, flags: int) -> None:
    code = Field("error_code", "int16")
    item = Layout("Item", (Field("error", "int8"), code), flexible=False)
    inner = Field("inner", "struct", struct=Layout("Inner", (code,), flexible=False), tag=7)
    items = Field("items", "struct", array=True, length="uvarint", struct=item)
    shape = Layout("Shape", (code, items), flexible=True, tagged=(inner,))
    assert decoder(shape)(unhex(text), 0)[2] == flags
