"""The primitives, one family a file, each primitive with all its rules in one block.

Reading order: `elementwise.py` (shared by elementwise primitives), `transcendental.py` (short and typical), `arithmetic.py`,
`shape.py`, `reductions.py`, `slicing.py`, `dot.py`; then `control/`, `collectives/` and `linalg/`.

Also: `accuracy.py` (the argument `accuracy`), `approximate.py` (the largest and smallest
elements), `bits.py` (bitwise operations), `buffer_callbacks.py` (`buffer_callback`),
`call.py` (call primitives), `callback_calls.py` (host callbacks in programs),
`callbacks.py` (`pure_callback`, `io_callback`), `rule_callbacks.py` (the same from lowering rules), `clamp.py` (values between two bounds), `comparison.py` (comparisons and selection), `complexes.py` (complex
numbers), `composite.py` (named operations with a decomposition), `compute_on.py` (annotations for the compiler), `constraint.py`
(`with_sharding_constraint`), `control_deps.py` (the order of what is computed), `conv.py` (convolution of any rank), `conv_functions.py` (public convolution
functions), `convert.py` (changes of dtype), `creation.py` (arrays made from nothing), `cumulative.py` (running
sums), `debugging.py` (looking into programs while they run), `dim_value.py` (symbolic dimensions as values), `device_put.py` (the
`device_put` primitive), `ffi.py` (`ffi_call`), `fft.py` (the discrete Fourier transform over one to three trailing
dimensions), `gather.py` (slices of one size from many run-time positions), `hi_refs.py` (references to values of the user's own types), `hashable.py` (arrays and
dictionaries as parameters of equations), `index_steps.py` (indices as chains of simple steps), `indexers.py` (indices into
mutable references), `inspecting.py` (shardings that the compiler chose), `layout.py` (`with_layout_constraint`), `parallel.py` (older names of collectives), `precision.py`
(precision of products), `ragged.py` (products of rows in groups), `reduce_sum.py` (`reduce_sum`), `reducing.py`
(`reduce` by any associative operation), `ref_batching.py` (batching of references), `ref_elements.py` (elements that an
access touches), `ref_functions.py` (mutable references), `ref_transforms.py` and `ref_views.py` (views of them), `refs.py` (their primitives), `reshard.py` (changes the sharding over Explicit
mesh axes), `rng.py` (random bits and numbers straight from the compiler's own generators), `scaled.py` (products of
narrow numbers in blocks, each block with a scale), `shard_alike.py` (values that are sharded alike), `scatter.py` (the primitives of `scatter` and its kin), `scatter_derivatives.py` (their
derivatives, and those of `gather`), `scatter_functions.py` (the functions that bind them), `sharding_in_types.py` (sharding rules for Explicit mesh axes), `slicing_in_dim.py` (slices along one dimension), `sort.py` (`sort` of one or several arrays along a dimension, and
`top_k`), `special.py` (special functions), `special_bessel.py` (modified Bessel functions of the first kind),
`special_forms.py` (lowering of special functions), `special_incomplete.py` (the incomplete gamma and beta
functions), `stacking.py` (stacking and unstacking), `tile.py` (an array repeated along
its dimensions), `tokens.py` (values without data), `uninitialized.py` (what memory holds before it is written), `window_selection.py` (selection of one element per window),
`windows.py` (reductions over windows that slide along an array).
"""

from xlab.collector import paused as _paused

with _paused(stays=True):
    from xlab.compile import dispatch as _dispatch
    from xlab.lax import scatter_derivatives as _scatter_derivatives
    from xlab.lax.accuracy import *
    from xlab.lax.approximate import *
    from xlab.lax.arithmetic import *
    from xlab.lax.bits import *
    from xlab.lax.clamp import *
    from xlab.lax.collectives import *
    from xlab.lax.comparison import *
    from xlab.lax.complexes import *
    from xlab.lax.composite import *
    from xlab.lax.constraint import with_sharding_constraint as with_sharding_constraint
    from xlab.lax.control import *
    from xlab.lax.conv_functions import *
    from xlab.lax.convert import *
    from xlab.lax.creation import *
    from xlab.lax.cumulative import *
    from xlab.lax.dim_value import dim_as_value_p as dim_as_value_p
    from xlab.lax.dot import *
    from xlab.lax.fft import *
    from xlab.lax.gather import *
    from xlab.lax.precision import *
    from xlab.lax.ragged import *
    from xlab.lax.reduce_sum import reduce_sum_p
    from xlab.lax.reducing import *
    from xlab.lax.reductions import *
    from xlab.lax.reshard import reshard_p as reshard_p
    from xlab.lax.rng import *
    from xlab.lax.scaled import *
    from xlab.lax.scatter_functions import *
    from xlab.lax.shape import *
    from xlab.lax.slicing import *
    from xlab.lax.slicing_in_dim import *
    from xlab.lax.sort import *
    from xlab.lax.special import *
    from xlab.lax.special_bessel import *
    from xlab.lax.special_incomplete import *
    from xlab.lax.stacking import *
    from xlab.lax.tile import *
    from xlab.lax.tokens import *
    from xlab.lax.transcendental import *
    from xlab.lax.windows import *


def __dir__():
    return sorted({*globals(), "linalg"})


def __getattr__(name: str):
    if name == "linalg":  # imported when first used
        from importlib import import_module

        return import_module("xlab.lax.linalg")
    if name.endswith("_p"):  # a primitive that its family's file keeps to itself
        import sys

        for module in [m for n, m in sorted(sys.modules.items()) if n.startswith("xlab.lax.")]:
            found = vars(module).get(name)
            if found is not None:
                return found
    from xlab.errors import no_attribute

    raise no_attribute("xlab.lax", name, globals())
