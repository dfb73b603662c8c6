"""A cause is reported once, however its frames differ."""

from tests.kproxy.stories import findings

METADATA_REQUEST = '> Metadata v0 {"topics": [{"name": "orders"}]}\n'


def test_frames_truncated_at_different_bytes_are_one_cause() -> None:
    # the host has a length of 52, but only 40, 45 and 50 bytes follow
    bodies = [f"00000001 00000001 0034 {'61' * size}" for size in (40, 45, 50)]
    frames = [f"{len(bytes.fromhex(body)) + 4:08x} {number:08x} {body}" for number, body in enumerate(bodies, 1)]
    story = "".join(f"{METADATA_REQUEST}< hex {frame}\n" for frame in frames)
    assert [finding.code for finding in findings(story) if finding.severity != "info"] == ["L002"]


def test_edit_in_different_elements_is_one_cause() -> None:
    def exchange_with_edit(number: int, edited_index: int) -> str:
        topics = "".join(
            f"0000 0005 {'74' * 4}{index:02x}" + ("00" if index != edited_index else "") + "00000000"
            for index in range(0x61, 0x64)
        )
        body = f"00000000 00000001 00000003 {topics}"
        return f'> Metadata v1 {{"topics": []}}\n< hex {len(bytes.fromhex(body)) + 4:08x} {number:08x} {body}\n'

    reported = [
        finding
        for finding in findings(exchange_with_edit(1, 0x61) + exchange_with_edit(2, 0x63))
        if finding.severity != "info"
    ]
    assert [finding.code for finding in reported] == ["L004"]
