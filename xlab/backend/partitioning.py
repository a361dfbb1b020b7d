"""A program at each stage of partitioning, as produced by Shardy's own passes.

Some of the passes end the process over programs that compile and run, so all of them run in the worker. A stage that is missing is
explained under `"failed"`.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlab.backend import ir, worker
from xlab.backend.inlining import inline_calls

PIPELINE = {
    "propagated": "sdy-propagation-pipeline",
    "resharded": "func.func(sdy-insert-explicit-reshards{enable-full-version=true})",
    "collectives": "func.func(sdy-reshard-to-collectives)",
    "local": "sdy-convert-global-to-local",
}
"""Stages of partitioning in order: name and passes."""


def partition_stages(
    text: str | bytes, *, locations: bool = False, last: str = "local"
) -> dict[str, str]:
    """The program before and after each stage of partitioning up to `last`, by default down to what one device runs.

    Calls are inlined before the first pass, as the compiler does. Where the passes come no further, `"failed"` says at which stage and why.
    """
    found, why = worker.run(stages_of, text, locations, last)
    stages = dict(found)
    if why:
        stages["failed"] = f"{next((name for name in PIPELINE if name not in stages), last)}: {why}"
    return stages


def stages_of(text: str | bytes, locations: bool, last: str) -> Iterator[tuple[str, str]]:
    """The stages one after the other, in this process."""
    module = ir.parse(text)
    yield "input", ir.print_module(module, locations=locations)
    with ir.context():
        inline_calls(module)
    for name, passes in PIPELINE.items():
        try:
            ir.apply_passes(module, passes)
        except ir.objects().MLIRError as error:
            yield "failed", f"{name}: {error}"
            return
        yield name, ir.print_module(module, locations=locations)
        if name == last:
            return
