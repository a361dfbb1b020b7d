"""`%xshard`: where an array, or an array of a shape under a spec, lies."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.magic import Magics, line_magic, magics_class

from xlab.notebook import displays, options
from xlab.notebook.magics.base import evaluate, told
from xlab.sharding import NamedSharding, PartitionSpec, Sharding

_OPTION = re.compile(r"\s--(shape|mesh)[ =](\S+)")


@magics_class
class Xshard(Magics):
    """`%xshard`."""

    @line_magic
    @told
    def xshard(self, line: str) -> None:
        """Draws the layout of an array, a spec or a sharding; reads addressable shards only.

        %xshard x
        %xshard P('data', None) --shape 8,4 --mesh data=4,model=2
        """
        given = dict(_OPTION.findall(" " + line))
        text = _OPTION.sub("", " " + line).strip()
        if not text:
            raise ValueError("%xshard takes an array, a sharding or a spec: %xshard x, "
                             "%xshard P('data', None) --shape 8,4 --mesh data=4,model=2")
        value = self._value(text)
        shape = tuple(int(n) for n in re.split(r"[,x]", given["shape"]) if n) if "shape" in given else None
        if isinstance(value, PartitionSpec):
            value = options.named_sharding(options.mesh(given.get("mesh")), value, "the array")
        elif isinstance(value, NamedSharding) and "mesh" in given:
            value = NamedSharding(options.mesh(given["mesh"]), value.spec)
        if isinstance(value, Sharding) and shape is None:
            shape = tuple(value.mesh.shape[a] if isinstance(a, str) else 1 for a in value.spec) \
                if isinstance(value, NamedSharding) else None
        displays.show(value, shape)

    def _value(self, text: str) -> Any:
        if text.startswith("P(") and "P" not in self.shell.user_ns:
            return options.spec(text)
        return evaluate(self.shell, text, "an array, a sharding or a spec")
