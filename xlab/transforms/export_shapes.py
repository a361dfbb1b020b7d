"""Exported programs with symbolic shapes: how arguments give values to the dimension variables, and the program for them.

Called with shapes that are numbers, the stored program is refined: every dynamic shape in it becomes a number, dynamic operations become
the ordinary ones, and the result is compiled like any other program. Called in a program that is itself being exported with symbolic
shapes, it becomes part of that program as it is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xlab import tree as _tree
from xlab.backend import ir as _ir
from xlab.core.avals import ShapedArray, aval_of
from xlab.core.dim_equations import Equations
from xlab.core.dim_scope import SymbolicScope, parse_shape
from xlab.core.dim_values import evaluate_shape
from xlab.core.dims import SymbolicDim, common_scope, is_symbolic_shape
from xlab.interpreters import mlir
from xlab.interpreters.mlir.building import Template
from xlab.interpreters.mlir.dynamic_operations import plain_types
from xlab.interpreters.mlir.dynamic_shapes import is_dynamic


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """The arguments as `ShapeDtypeStruct`s with symbolic shapes.

    Args:
        args: a pytree of arrays or types.
        shapes_specs: a text as `symbolic_shape` takes it, for all arguments, or a pytree of texts that is a prefix of `args`. `_`
            and `...` take dimensions from the argument, and None is `...`.
        constraints: what holds of the dimensions. Not together with `scope`.
        scope: the scope of the variables; by default a new one for all arguments.

    Returns:
        A pytree like `args`.

    Raises:
        ValueError: the specifications do not fit the arguments.

    Example:
        >>> import numpy as np
        >>> symbolic_args_specs((np.ones((2, 3)), np.ones(2)), ("b, ...", "b"))[0].shape
        (b, 3)
    """
    from xlab.compile.stages import ShapeDtypeStruct

    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ValueError(
            "symbolic_args_specs takes either `scope` or `constraints`: a scope has its constraints already"
        )
    given, structure = _tree.flatten(args)
    specs = _specs_of_leaves(args, shapes_specs, structure.num_leaves)
    made = []
    for x, spec in zip(given, specs):
        aval = aval_of(x) if not hasattr(x, "shape") or not hasattr(x, "dtype") else x
        try:
            shape = parse_shape("..." if spec is None else spec, scope, like=aval.shape)
            if len(shape) != len(aval.shape):
                raise ValueError(f"{spec!r} stands for {len(shape)} dimensions.")
        except ValueError as e:
            raise ValueError(
                f"{e} It is the specification of an argument of shape {aval.shape}."
            ) from None
        made.append(
            ShapeDtypeStruct(shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
        )
    return _tree.unflatten(structure, made)


def _specs_of_leaves(args, specs, n: int) -> list:
    if specs is None or isinstance(specs, str):
        return [specs] * n
    found: list = []
    try:
        _tree.map(
            lambda spec, part: found.extend([spec] * len(_tree.leaves(part))),
            specs,
            args,
            is_leaf=lambda x: x is None or isinstance(x, str),
        )
    except ValueError as e:
        raise ValueError(
            f"shapes_specs has to be a text, or a pytree of texts that is a prefix of the arguments; got {specs!r}: {e}"
        ) from None
    return found


def scope_of(avals: Sequence) -> SymbolicScope | None:
    """The one scope of the symbolic dimensions in types, None where there are none."""
    return common_scope(
        *(d for a in avals for d in getattr(a, "shape", ()) if isinstance(d, SymbolicDim))
    )


def argument_names(in_tree) -> list[str]:
    """What arguments are called in messages: `args[0]['w']`, `kwargs['scale']`."""
    return [
        ("args", "kwargs")[part.idx] + _tree.keystr(path)
        for part, *path in _tree.leaf_paths(in_tree)
    ]


def equations_of(exported) -> Equations | None:
    """The equations between an exported program's symbolic shapes and those of a call; None where all shapes are numbers."""
    if not is_dynamic(exported.in_avals):
        return None
    found = exported._templates.get("equations")
    if found is None:
        found = exported._templates["equations"] = Equations(
            [a.shape for a in exported.in_avals], argument_names(exported.in_tree)
        )
    return found


def check_shapes(exported, avals: Sequence[ShapedArray]) -> None:
    """Raises where arguments of a call have other shapes than the program takes."""
    names = None
    for i, (got, want) in enumerate(zip(avals, exported.in_avals)):
        if got.shape == want.shape:
            continue
        names = names or argument_names(exported.in_tree)
        if len(got.shape) != len(want.shape):
            raise ValueError(
                f"Rank mismatch for {names[i]}: expected {want.shape} and called with {got.shape}"
            )
        if any(not isinstance(w, SymbolicDim) and g != w for g, w in zip(got.shape, want.shape)):
            raise ValueError(
                f"Shape mismatch for argument {i} of {exported.fun_name}, {names[i]}: expected {want.shape} and called with "
                f"{got.shape}"
            )


def result_types(exported, avals: Sequence) -> tuple:
    """The types of the results for types of the flat arguments."""
    equations = equations_of(exported)
    if equations is None:
        return exported.out_avals
    env = equations.solve([a.shape for a in avals])
    return tuple(
        a.update(shape=evaluate_shape(a.shape, env), sharding=a.explicit_sharding)
        if is_symbolic_shape(a.shape)
        else a
        for a in exported.out_avals
    )


def refined(exported, platform: str, shapes: Sequence[tuple]) -> Template:
    """The program for arguments of these shapes, which are numbers."""
    kept = exported.module_kept_var_idx
    constants = [mlir.tensor_type(aval_of(c)) for c in exported.constants]
    dynamic = constants + [plain_types(mlir.tensor_type(exported.in_avals[i])) for i in kept]
    static = constants + [
        mlir.tensor_type(exported.in_avals[i].update(shape=shapes[i], sharding=None)) for i in kept
    ]
    outs = [plain_types(mlir.tensor_type(a)) for a in exported.out_avals]
    text = "\n".join(
        _ir.function_texts(_ir.from_portable(exported._program(platform)), "exported_main").values()
    )
    lines, operands = [], []
    for i, (have, want) in enumerate(zip(static, dynamic)):
        operands.append(f"%arg{i}")
        if have != want:
            operands[-1] = f"%c{i}"
            lines.append(f"%c{i} = stablehlo.convert %arg{i} : ({have}) -> {want}")
    results = [f"%r#{i}" for i in range(len(outs))] if len(outs) > 1 else ["%r"] * len(outs)
    call = f"func.call @exported_main({', '.join(operands)}) : ({', '.join(dynamic)}) -> ({', '.join(outs)})"
    lines.append(f"%r{f':{len(outs)}' if len(outs) > 1 else ''} = {call}" if outs else call)
    lines.append(f"return {', '.join(results)} : {', '.join(outs)}" if outs else "return")
    arguments = ", ".join(f"%arg{i}: {t}" for i, t in enumerate(static))
    body = "\n    ".join(lines)
    meshes, functions = _meshes_first(text)
    module = (
        f"module @{_symbol(exported.fun_name)} {{\n{meshes}\n  func.func public @main({arguments}) -> ({', '.join(outs)}) {{\n    {body}\n"
        f"  }}\n{functions}\n}}"
    )
    try:
        module = _ir.refine_shapes(module)
    except ValueError as error:
        raise _impossible(exported, shapes, error) from None
    texts = _ir.function_texts(module, "function")
    return Template(list(texts.values()), list(texts))


_REASON = re.compile(r"(\S+?:\d+(?::\d+)?): error: (?:'[\w.]+' op )?(.+)")


def _impossible(exported, shapes: Sequence[tuple], error: ValueError) -> ValueError:
    """The error for shapes that an operation of the program cannot have."""
    found = _REASON.search(str(error))
    why = f"at {found[1]}, {found[2].rstrip('.')}" if found else str(error)
    given = ", ".join(
        f"{shapes[i]} for {exported.in_avals[i].str_short(short_dtypes=True)}"
        for i in exported.module_kept_var_idx
    )
    return ValueError(
        f"{exported.fun_name} was exported for sizes that an operation of it cannot have all of, and is called with one of these, {given}: "
        f"{why}. Say at export which sizes it is for, as in symbolic_shape('n', constraints=['n >= 2']), and calls are checked before "
        f"anything is compiled."
    )


def _symbol(name: str) -> str:
    return "".join(c if c.isalnum() or c == "_" else "_" for c in name) or "exported"


def _meshes_first(text: str) -> tuple[str, str]:
    lines = text.split("\n")
    meshes = [line for line in lines if line.lstrip().startswith("sdy.mesh")]
    return "\n".join(meshes), "\n".join(line for line in lines if line not in meshes)
