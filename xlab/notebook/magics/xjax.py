"""`%xjax`: from here on, `import jax` gives xlab, also in libraries."""

from __future__ import annotations

from types import SimpleNamespace

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class

from xlab.notebook.magics.arguments import takes


@magics_class
class Xjax(Magics):
    """`%xjax`."""

    @line_magic
    @takes("on or off", python=False)
    def xjax(self, given: SimpleNamespace) -> None:
        """Makes every later `import jax` xlab's, also in libraries written for JAX; `%xjax off` takes that back before the first one.

        Programs with flax, optax, equinox, numpyro and others then run on this runtime, and every view sees through them.
        """
        word = given.rest.strip() or "on"
        if word not in ("on", "off"):
            raise UsageError(f"%xjax takes on or off; given {word!r}")
        try:
            from xlab.jax_alias import finder

            (finder.on if word == "on" else finder.off)()
        except (ImportError, RuntimeError) as error:
            raise UsageError(str(error)) from None
        print(
            "import jax gives xlab from here on, in this kernel and in libraries it imports"
            if word == "on"
            else "import jax gives JAX"
        )
