"""`kproxy dissect -j N`: several files at the same time, each in its own process, with the same output as one process.

One capture is not split: its connections share what the rules know about brokers, groups, producers and topics, and
which root causes were reported. Captures share nothing but the numbering of connections, which are counted first.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from operator import length_hint
from pathlib import Path
from typing import NamedTuple

from dissectors.failures import Failure
from kproxy.cli.dissect_input import Outcome, display_name, dissect_input, output_of
from kproxy.cli.options import selection_of
from kproxy.errors import UserError
from kproxy.outputs.coverage import Counts
from kproxy.outputs.output import Output


class _Result(NamedTuple):
    """The result for one input. The output is in a file; `stderr_text` was written to standard error."""

    outcome: Outcome | None
    error: UserError | None
    stderr_text: str
    counts: Counts
    failures: Counter[Failure]


def dissect_in_parallel(
    inputs: Sequence[tuple[str, bool]], args: argparse.Namespace, output: Output
) -> Iterator[Outcome]:
    """Dissect the inputs in up to `args.jobs` processes; write their output in the order of the inputs.

    Raises:
        UserError: As in `dissect_input`, once the output of all earlier inputs has been written.
    """
    # Other values are parsers and functions, which cannot be sent to another process.
    sendable_types = (str, int, list, type(None))
    options = argparse.Namespace(
        **{name: value for name, value in vars(args).items() if isinstance(value, sendable_types)}
    )
    workers = ProcessPoolExecutor(min(args.jobs, len(inputs)), mp_context=get_context("spawn"))
    with tempfile.TemporaryDirectory(prefix="kproxy-") as directory:
        try:
            first_flows = itertools.accumulate(workers.map(_count_flows, [name for name, _ in inputs]), initial=0)
            futures = [
                workers.submit(_dissect, job, first_flow, options, Path(directory, str(number)), _encoding())
                for number, (job, first_flow) in enumerate(zip(inputs, first_flows, strict=False))
            ]
            for number, ((name, _), future) in enumerate(zip(inputs, futures, strict=True)):
                result = future.result()
                output.begin(display_name(name))
                output.analysed.files[display_name(name)] = result.counts
                output.failures += result.failures
                output_path = Path(directory, str(number))
                with output_path.open("rb") as file:
                    shutil.copyfileobj(file, sys.stdout.buffer, 1 << 20)
                output_path.unlink()
                sys.stdout.flush()
                with contextlib.suppress(OSError):  # like `warn`
                    sys.stderr.write(result.stderr_text)
                if result.error is not None:
                    raise result.error
                assert result.outcome is not None
                yield result.outcome
        finally:
            workers.shutdown(cancel_futures=True)


def _encoding() -> tuple[str, str]:
    return sys.stdout.encoding, sys.stdout.errors or "strict"


def _count_flows(name: str) -> int:
    """Return how many connection numbers a file uses up; 0 if it cannot be read, which is reported later."""
    from kproxy.capture import Capture, Reassembler
    from kproxy.trace.reader import open_trace

    flow_ids = itertools.count()
    with contextlib.suppress(OSError, UserError), Path(name).open("rb") as file:
        opened = open_trace(file, name, lambda _: None)
        if opened.lines is None:
            reassembler = Reassembler(flow_ids=flow_ids)
            with Capture(opened.source, name, owned=False) as capture:
                for link_type, data, packets in capture.blocks():
                    remaining = iter(packets)
                    while length_hint(remaining):
                        with contextlib.suppress(Exception):  # a bug in kproxy, which is reported later
                            reassembler.receive_all(link_type, data, remaining, [])
    return next(flow_ids)


def _dissect(
    job: tuple[str, bool], first_flow: int, args: argparse.Namespace, output_path: Path, encoding: tuple[str, str]
) -> _Result:
    selection = selection_of(args)
    stderr = io.StringIO()
    with (
        output_path.open("w", encoding=encoding[0], errors=encoding[1]) as file,
        contextlib.redirect_stdout(file),
        contextlib.redirect_stderr(stderr),
    ):
        output = output_of(args, selection, headings=False)
        outcome, user_error = None, None
        try:
            outcome = dissect_input(*job, itertools.count(first_flow), args, output, selection)
        except UserError as error:
            user_error = error
        output.close()
    [counts] = output.analysed.files.values()
    return _Result(outcome, user_error, stderr.getvalue(), counts, output.failures)
