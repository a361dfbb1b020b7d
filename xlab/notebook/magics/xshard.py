"""`%xshard`: where an array, or an array of a shape under a spec, lies."""

from __future__ import annotations

import ast
import re
from types import SimpleNamespace
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class

from xlab import observe
from xlab.notebook import formatters, options
from xlab.notebook.magics.arguments import Option, takes
from xlab.notebook.magics.base import evaluate
from xlab.observe.records.sharding_tree import ShardingTree
from xlab.sharding import NamedSharding, PartitionSpec, Sharding


def shape_of(text: str) -> tuple[int, ...]:
    """Reads `--shape`.

    >>> shape_of("8,4"), shape_of("(8, 4)"), shape_of("8x4")
    ((8, 4), (8, 4), (8, 4))
    """
    sizes = [size for size in re.split(r"[,x\s]+", text.strip("() ")) if size]
    if not all(size.isdecimal() for size in sizes):
        raise ValueError("the sizes of an array, such as 8,4")
    return tuple(map(int, sizes))


@magics_class
class Xshard(Magics):
    """`%xshard`."""

    @line_magic
    @takes(
        "x",
        Option("shape", "of the array, where there is none", "8,4", shape_of),
        Option("mesh", "the mesh of a spec, in place of the current one", "data=4,model=2"),
        Option("target", "on chips that need not be there (needs the extra tpu)", "tpu:v5e:4x4"),
    )
    def xshard(self, given: SimpleNamespace) -> None:
        """Draws the layout of an array, a spec or a sharding; reads addressable shards only.

        %xshard x
        %xshard params                                              (a pytree: spec and bytes of each leaf)
        %xshard x P(None, 'model')                                  (what moves when it is laid out so)
        %xshard P('data', None) P() --shape 8,4 --mesh data=4,model=2
        %xshard P('data', None) --shape 8,4 --mesh data=4,model=2
        """
        text, shape = given.rest, given.shape
        if not text:
            raise ValueError(
                "%xshard takes an array, a pytree of them, a sharding or a spec: %xshard x, "
                "%xshard P('data', None) --shape 8,4 --mesh data=4,model=2"
            )
        both = two_values(text)
        if both is not None:
            before, after = (self._placed(v, given) for v in map(self._value, both))
            sized = next(
                (x for x in (before, after) if not isinstance(x, (Sharding, PartitionSpec))), None
            )
            if sized is None and shape is None:
                raise ValueError(
                    f"two specs say how arrays lie, of any shape: %xshard {text} --shape 8,4"
                )
            name = both[0] if both[0].isidentifier() and sized is before else ""
            formatters.show(observe.compare(before, after, shape, name=name, compiled=True))
            return
        value = self._value(text)
        if given.target:
            self._on_target(value, given, shape)
            return
        over = options.mesh_to_compile_for(given.mesh)
        if isinstance(value, PartitionSpec):
            value = options.named_sharding(over, value, "the array")
        elif isinstance(value, NamedSharding) and given.mesh:
            value = NamedSharding(over, value.spec)
        elif given.mesh and isinstance(getattr(value, "sharding", None), NamedSharding):
            value = options.typed(
                value, options.named_sharding(over, value.sharding.spec, "the array")
            )
        if isinstance(value, Sharding) and shape is None:
            shape = (
                tuple(value.mesh.shape[a] if isinstance(a, str) else 1 for a in value.spec)
                if isinstance(value, NamedSharding)
                else None
            )
        record = formatters.record_of(value, shape)
        formatters.show(record.replace(name=text) if isinstance(record, ShardingTree) else record)

    def _on_target(self, value: Any, given: SimpleNamespace, shape: tuple[int, ...] | None) -> None:
        """The layout on the devices of a target, whichever they are; of an array, its own spec or the one of its sharding."""
        mesh = options.mesh_to_compile_for(given.mesh) if given.mesh else None
        sharding = value if isinstance(value, (Sharding, PartitionSpec)) else value.sharding
        if not isinstance(sharding, (NamedSharding, PartitionSpec)):
            raise ValueError(
                "--target lays a spec on the devices of a target: %xshard P('data', None) --shape 8,4 --mesh data=4,model=4 "
                "--target tpu:v5e:4x4"
            )
        shape = shape if shape is not None else getattr(value, "shape", None)
        spec, over = (
            (sharding, mesh)
            if isinstance(sharding, PartitionSpec)
            else (sharding.spec, mesh or sharding.mesh)
        )
        if over is None or shape is None:
            raise ValueError("a spec on a target needs --shape 8,4 and --mesh data=4,model=4")
        formatters.show(
            observe.on_target(
                given.target,
                NamedSharding(over, spec),
                shape,
                dtype=getattr(value, "dtype", "float32"),
            )
        )

    def _placed(self, value: Any, given: SimpleNamespace) -> Any:
        """A spec on the mesh that `--mesh` gives; without it, on that of the other side."""
        if isinstance(value, PartitionSpec) and given.mesh:
            return options.named_sharding(
                options.mesh_to_compile_for(given.mesh), value, "the array"
            )
        return value

    def _value(self, text: str) -> Any:
        if text.startswith("P(") and "P" not in self.shell.user_ns:
            return options.spec(text)
        return evaluate(self.shell, text, "xshard", "an array, a sharding or a spec")


def two_values(text: str) -> tuple[str, str] | None:
    """The two expressions of a line, None where it is one.

    >>> two_values("x P(None, 'model')"), two_values("f(x, 1)"), two_values("P('a') P()")
    (('x', "P(None, 'model')"), None, ("P('a')", 'P()'))
    """
    if _is_expression(text):
        return None
    for space in re.finditer(r"\s+", text):
        left, right = text[: space.start()], text[space.end() :]
        if _is_expression(left) and _is_expression(right):
            return left, right
    return None


def _is_expression(text: str) -> bool:
    try:
        return bool(ast.parse(text, mode="eval"))
    except SyntaxError:
        return False
