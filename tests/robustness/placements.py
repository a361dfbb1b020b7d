"""Every operation with its operands lying in every way on one and two mesh axes, compiled and looked at; nothing runs.

`python -m tests.robustness.placements COUNT PART OF [FIRST [ONLY]]` takes up to COUNT placements of each program whose number is PART modulo
OF, from program FIRST on and with ONLY in its name, and prints a JSON line where it begins with one and what came of it. A `begin` without
its `end` names the program that took the process down.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import random
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

TABLES = ("lax.samples", "lax.samples_complex", "lax.samples_control", "lax.samples_conv", "lax.samples_data", "lax.samples_products",
          "lax.samples_scalars", "lax.samples_solve", "lax.samples_special", "lax.samples_stacking", "lax.samples_staging",
          "lax.samples_windows", "lax.linalg.samples", "scipy.linalg.samples",
          "numpy.samples", "numpy.samples_insert_delete", "numpy.samples_fft", "numpy.samples_linalg", "numpy.samples_more",
          "numpy.samples_narrow", "numpy.samples_parameters", "numpy.samples_ufunc", "numpy.samples_updates", "numpy.samples_values",
          "numpy.samples_wide", "nn.samples", "random.samples", "ops.samples",
          "transforms.samples", "transforms.samples_programs")  # fmt: skip
MESHES = ((2, 4), (2, 2), (3, 2), (2, 3), (3, 3), (2, 1), (3, 1), (5, 1), (7, 1))
"""Sizes of the axes `x` and `y`; a placement takes the first that divides what it splits."""
KINDS = ("Auto", "Auto", "Auto", "Explicit", "partly manual")
"""How the axes are treated: by the compiler, by types, or `x` by `shard_map` with everything whole along it."""

Spec = tuple[tuple[str, ...], ...]


class Program(NamedTuple):
    """A function of arrays."""

    name: str
    fun: Any
    args: tuple


def programs() -> Iterator[Program]:
    """The samples of every table as they are, with longer dimensions, mapped over a further one, and differentiated."""
    import importlib

    from tests.reference.sample import namespaces
    from xlab import tree

    n = namespaces("xlab")
    for table in TABLES:
        for sample in importlib.import_module(f"tests.{table}").SAMPLES:
            if sample.error or sample.x64:
                continue
            leaves, treedef = tree.flatten(tuple(sample.args))
            split = [
                i for i, x in enumerate(leaves) if isinstance(x, np.ndarray) and x.ndim and x.size
            ]
            if not split:
                continue

            def fun(*arrays, leaves=leaves, split=split, treedef=treedef, sample=sample):
                given = list(leaves)
                for i, x in zip(split, arrays):
                    given[i] = x
                return sample.fun(n, *tree.unflatten(treedef, given))

            args = tuple(leaves[i] for i in split)
            name = f"{table}.{sample.name}"
            grown = tuple(np.tile(a, [1 if s == 1 else 4 for s in a.shape]) for a in args)
            yield Program(name, fun, args)
            if sum(a.size for a in grown) <= 1 << 14:
                yield Program(name + " longer", fun, grown)
            mapped = tuple(np.stack([a] * 3) for a in args)
            if "vmap" in sample.transforms:
                yield Program(name + " vmap", n.jax.vmap(fun), mapped)
            if "grad" in sample.transforms:

                def total(*arrays, fun=fun):
                    return sum(
                        (
                            n.jnp.sum(n.jnp.real(x))
                            for x in tree.leaves(fun(*arrays))
                            if n.jnp.issubdtype(x.dtype, np.inexact)
                        ),
                        0.0,
                    )

                at = tuple(i for i, a in enumerate(args) if np.issubdtype(a.dtype, np.floating))
                if at:
                    yield Program(name + " grad", n.jax.grad(total, argnums=at), args)
                    yield Program(name + " longer grad", n.jax.grad(total, argnums=at), grown)


def placements(shapes: list[tuple[int, ...]]) -> list[tuple[Spec, ...]]:
    """The ways operands lie on the axes `x` and `y`, each axis over one dimension of some: one operand split, two, or all alike."""
    places = [(i, d) for i, shape in enumerate(shapes) for d in range(len(shape)) if shape[d] > 1]
    found: dict[Any, None] = {}

    def add(*given: tuple[int, int, tuple[str, ...]]) -> None:
        specs = [[()] * len(shape) for shape in shapes]
        for i, d, axes in given:
            specs[i][d] = axes
        found[tuple(tuple(spec) for spec in specs)] = None

    for i, d in places:
        add((i, d, ("x",)))
        add((i, d, ("x", "y")))
        add((i, d, ("y", "x")))
        add((i, d, ("y",)))
    for (i, d), (j, e) in itertools.permutations(places, 2):
        add((i, d, ("x",)), (j, e, ("y",)))
        if i < j:
            add((i, d, ("x",)), (j, e, ("x",)))
            add((i, d, ("x", "y")), (j, e, ("x", "y")))
    for d in range(max(map(len, shapes), default=0)):
        add(*((i, d, ("x",)) for i, shape in enumerate(shapes) if d < len(shape) and shape[d] > 1))
    return list(found)


def mesh_sizes(shapes: list[tuple[int, ...]], specs: tuple[Spec, ...]) -> tuple[int, int] | None:
    """The first mesh whose axes divide what they split."""
    for x, y in MESHES:
        sizes = {"x": x, "y": y}
        used = set(itertools.chain(*itertools.chain(*specs)))
        if all(sizes[a] > 1 for a in used) and all(
            s % math.prod(sizes[a] for a in axes) == 0
            for shape, spec in zip(shapes, specs)
            for s, axes in zip(shape, spec)
        ):
            return x, y
    return None


def spec_text(spec: Spec) -> str:
    return "P(" + ", ".join("+".join(axes) or "-" for axes in spec) + ")"


def main(count: int, part: int, of: int, first: int = 0, only: str = "") -> None:
    import xlab
    from tests.reference.harness import compiled_quickly

    def say(**line: Any) -> None:
        print(json.dumps(line), flush=True)

    done = 0
    with compiled_quickly(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, program in enumerate(programs()):
            if number % of != part or number < first or only not in program.name:
                continue
            shapes = [a.shape for a in program.args]
            rng = random.Random(program.name)
            ways = [
                (specs, sizes)
                for specs in placements(shapes)
                if (sizes := mesh_sizes(shapes, specs)) is not None
            ]
            for specs, sizes in rng.sample(ways, min(count, len(ways))):
                kind = rng.choice(KINDS)
                listed = ", ".join(
                    f"{a.dtype}{list(a.shape)} {spec_text(s)}" for a, s in zip(program.args, specs)
                )
                say(
                    number=number, begin=f"{program.name} on {sizes[0]}x{sizes[1]} {kind}: {listed}"
                )
                try:
                    lowered = lower(program, specs, sizes, kind)
                except (
                    Exception
                ) as error:  # as its types say, or a length that is written into the program
                    say(end="refused", words=f"{type(error).__name__}: {error}"[:200])
                    if kind == "Auto":
                        break
                    continue
                say(**look(lowered))
                done += 1
                if done % 100 == 0:
                    xlab.clear_caches()


def lower(program: Program, specs: tuple[Spec, ...], sizes: tuple[int, int], kind: str) -> Any:
    import xlab
    from xlab.sharding import AxisType, NamedSharding, P, make_mesh, set_mesh

    explicit = kind == "Explicit"
    mesh = make_mesh(
        sizes, ("x", "y"), axis_types=(AxisType.Explicit if explicit else AxisType.Auto,) * 2
    )

    def fun(*args: Any) -> Any:
        return program.fun(*args)

    if kind == "partly manual":
        fun = xlab.shard_map(fun, mesh=mesh, in_specs=P(), out_specs=P(), axis_names={"x"})
    typed = [
        xlab.ShapeDtypeStruct(
            a.shape, a.dtype, sharding=NamedSharding(mesh, P(*(axes or None for axes in spec)))
        )
        for a, spec in zip(program.args, specs)
    ]
    with set_mesh(mesh) if explicit else contextlib.nullcontext():
        return xlab.jit(fun).lower(*typed)


def look(lowered: Any) -> dict[str, Any]:
    """Everything that is shown of a program; what is not known of it, and what went wrong."""
    from xlab import observe
    from xlab.observe.programs.stages import program_stages
    from xlab.observe.sharding.program_layouts import program_layouts

    try:
        stages = program_stages(lowered.compile())
    except Exception as error:  # the compiler refuses some operations along split dimensions
        return {"end": "not compiled", "words": f"{type(error).__name__}: {error}"[:200]}
    try:
        observe.transfers(stages)
        observe.program(stages, levels=True)
        program_layouts(stages)
    except Exception as error:
        return {"end": "not shown", "words": f"{type(error).__name__}: {error}"[:400]}
    return {"end": "shown", "words": " | ".join(stages.unknown)}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:5]), *sys.argv[5:])
