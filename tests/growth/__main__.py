"""Test every way in which a frame can grow: `python -m tests.growth [PART/PARTS]` prints those that grow too fast.

All of them take hours of CPU time; `3/8` runs the third of eight parts.
"""

from __future__ import annotations

import sys

from dissectors import schemas
from tests.growth.frames import growing_frames
from tests.growth.growth import MAX_GROWTH, growth, short_searches


def main(part: str = "1/1") -> int:
    """Run one part of the cases, and return the number of cases that grow too fast."""
    part_number, part_count = map(int, part.split("/"))
    failed_count = case_count = 0
    with short_searches():
        for api in schemas.apis():
            for version in api.versions:
                for is_request in (True, False):
                    for growing_frame in growing_frames(api.name, version, is_request=is_request):
                        case_count += 1
                        if (
                            case_count % part_count == part_number % part_count
                            and (factor := growth(growing_frame)) > MAX_GROWTH
                        ):
                            failed_count += 1
                            print(f"{factor:.2f}  {growing_frame}", flush=True)  # noqa: T201
    print(f"{failed_count} of {case_count // part_count} grow too fast")  # noqa: T201
    return failed_count


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
