"""The call of an exported program, inside of another program."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from xlab.backend import ir as _ir
from xlab.backend.caches import drop_oldest
from xlab.core.avals import aval_of
from xlab.core.primitive import Primitive
from xlab.core.sharding_rules import sharding_rules
from xlab.interpreters import ad, batching, costs, mlir
from xlab.interpreters.mlir.building import Template, place_functions
from xlab.interpreters.mlir.dynamic_shapes import is_dynamic
from xlab.sharding.typed import entries
from xlab.transforms.export_shapes import refined, result_types

_KEPT_SHAPES = 64  # of one program with symbolic shapes, refined


@dataclass(frozen=True)
class DisabledSafetyCheck:
    """A safety check of `export` that the caller disables."""

    name: str

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Lets a program run on another platform than it was exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Lets a program call a foreign function that other versions may not have."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The name of the foreign function whose check this disables; None for other checks."""
        return self.name.removeprefix("custom_call:") if ":" in self.name else None


call_exported_p = Primitive("call_exported", multiple_results=True)


call_exported_p.def_abstract_eval(lambda *avals, exported: result_types(exported, avals))


sharding_rules[call_exported_p] = lambda ins, outs, *, exported: [entries(a) for a in outs]


ad.primitive_jvps.excuse(
    call_exported_p, "an exported program is differentiated through its own kept derivative"
)


batching.primitive_batchers.excuse(
    call_exported_p, "an exported program has fixed shapes; map over it with lax.map"
)


def _lowering(ctx, *args, exported: Any):
    allowed = DisabledSafetyCheck.platform() in exported.disabled_safety_checks
    if ctx.platform not in exported.platforms and not allowed:
        raise ValueError(
            f"Function '{exported.fun_name}' was exported for platforms {exported.platforms} but it is used on "
            f"'{ctx.platform}'."
        )
    if exported.nr_devices not in (1, ctx.module.devices):
        raise ValueError(
            f"Function {exported.fun_name} was exported for {exported.nr_devices} devices and is called in a context with "
            f"{ctx.module.devices} devices, which is not allowed. Lay its arguments over {exported.nr_devices} devices: "
            f"xlab.device_put(x, exported.in_shardings_jax(mesh)[i])."
        )
    wanted = list(exported.in_avals)
    results = list(exported.out_avals)
    shapes = None
    if is_dynamic(wanted) and not is_dynamic(ctx.avals_in):
        shapes = tuple(a.shape for a in ctx.avals_in)
        wanted = [a.update(shape=shape) for a, shape in zip(wanted, shapes)]
        results = list(ctx.avals_out)
    template = exported._templates.get((ctx.platform, shapes))
    if template is None:
        if shapes is None:
            texts = _ir.function_texts(
                _ir.from_portable(exported._program(ctx.platform)), "function"
            )
            template = Template(list(texts.values()), list(texts))
        else:
            template = refined(exported, ctx.platform, shapes)
        exported._templates[ctx.platform, shapes] = template
        drop_oldest(exported._templates, _KEPT_SHAPES)
    symbol = place_functions(ctx, _over_meshes(ctx, template), exported.fun_name)
    kept = exported.module_kept_var_idx
    where = exported._in_named_shardings or [None] * len(args)
    operands = [
        *(ctx.constant(c, aval_of(c)) for c in exported.constants),
        *(
            _as_type(
                ctx, _held(ctx, args[i], where[i], ctx.avals_in[i]), ctx.avals_in[i], wanted[i]
            )
            for i in kept
        ),
    ]
    types_in = [
        *(mlir.tensor_type(aval_of(c)) for c in exported.constants),
        *(mlir.tensor_type(wanted[i]) for i in kept),
    ]
    types_out = [mlir.tensor_type(a) for a in results]
    outs = ctx.ops(
        f"func.call @{symbol}({', '.join(operands)}) : ({', '.join(types_in)}) -> ({', '.join(types_out)})",
        len(types_out),
    )
    return [
        _held(ctx, _as_type(ctx, x, have, a), s, a)
        for x, s, have, a in zip(
            outs, exported._out_named_shardings or [None] * len(outs), results, ctx.avals_out
        )
    ]


def _as_type(ctx, x: str, have, want) -> str:
    """A value whose type says the dimensions of the program it goes to."""
    have, want = mlir.tensor_type(have), mlir.tensor_type(want)
    return x if have == want else ctx.op(f"stablehlo.convert {x} : ({have}) -> {want}")


_MESH = re.compile(r"sdy\.mesh @([\w.$-]+) = <\[(.*?)\](?:, device_ids=\[([\d, ]*)\])?>")


_AXIS = re.compile(r'"((?:[^"\\]|\\.)*)"=(\d+)')


def _over_meshes(ctx, template: Template) -> Template:
    """The functions over the meshes of the module they become part of."""
    functions, symbols, meshes = [], [], {}
    for text, symbol in zip(template.functions, template.symbols):
        found = _MESH.match(text)
        if found is None:
            functions.append(text)
            symbols.append(symbol)
            continue
        ids = tuple(map(int, found[3].split(","))) if found[3] else None
        meshes[found[1]] = ctx.module.meshes.of_axes(
            tuple((name, int(size)) for name, size in _AXIS.findall(found[2])), ids
        )
    if not meshes:
        return template
    use = re.compile(r"<@(" + "|".join(map(re.escape, meshes)) + r")(?=[,>])")
    return Template([use.sub(lambda m: f"<@{meshes[m[1]]}", text) for text in functions], symbols)


def _held(ctx, x: str, sharding, aval) -> str:
    """Constrains an argument or result to the exported program's sharding."""
    if sharding is None or ctx.module.devices == 1 or ctx.manual:
        return x
    text = sharding.sdy(aval.ndim, ctx.module.meshes.symbol(sharding.mesh)).removeprefix(
        "#sdy.sharding"
    )
    return ctx.op(f"sdy.sharding_constraint {x} {text} : {mlir.tensor_type(aval)}")


mlir.register_text_lowering(call_exported_p, _lowering)


costs.register(costs.host, call_exported_p)
