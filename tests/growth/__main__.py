"""Every way in which a frame can grow: `python -m tests.growth [PART/PARTS]` prints what grows too fast.

All of them take hours of CPU time; `3/8` runs the third of eight parts.
"""

from __future__ import annotations

import sys

from dissectors import schemas
from tests.growth.frames import growing_frames
from tests.growth.growth import MAX_GROWTH, growth, short_searches


def main(part: str = "1/1") -> int:
    """Run one part of the cases, and return how many grow too fast."""
    number, parts = map(int, part.split("/"))
    failed = count = 0
    with short_searches():
        for api in schemas.apis():
            for version in api.versions:
                for is_request in (True, False):
                    for growing_frame in growing_frames(api.name, version, is_request=is_request):
                        count += 1
                        if count % parts == number % parts and (factor := growth(growing_frame)) > MAX_GROWTH:
                            failed += 1
                            print(f"{factor:.2f}  {growing_frame}", flush=True)  # noqa: T201
    print(f"{failed} of {count // parts} grow too fast")  # noqa: T201
    return failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]) > 0)
