"""xlab: see how array programs are traced, transformed, sharded, compiled and run."""

from xlab import backend as _backend  # checks jaxlib's version before anything else
from xlab import lax as lax
from xlab.compile import dispatch as _dispatch
from xlab.compile.jit import jit as jit
from xlab.compile.stages import ShapeDtypeStruct as ShapeDtypeStruct
from xlab.core.array import Array as Array
from xlab.transforms.grad import grad as grad, value_and_grad as value_and_grad
from xlab.transforms.vjp import vjp as vjp, linearize as linearize
from xlab.transforms.jvp import jvp as jvp
from xlab.transforms.vmap import vmap as vmap
from xlab.transforms.make_jaxpr import make_jaxpr as make_jaxpr, eval_shape as eval_shape
from xlab.transforms.custom_jvp import custom_jvp as custom_jvp
from xlab.transforms.custom_vjp import custom_vjp as custom_vjp
from xlab.transforms.checkpoint import checkpoint as checkpoint, checkpoint_policies as checkpoint_policies, remat as remat
from xlab.parallel.shard_map import shard_map as shard_map


def load_ipython_extension(shell):
    """`%load_ext xlab`: magics and displays of the notebook layer, imported only here."""
    from xlab.notebook import load_ipython_extension as load

    load(shell)


def unload_ipython_extension(shell):
    """`%unload_ext xlab`: takes them back."""
    from xlab.notebook import unload_ipython_extension as unload

    unload(shell)
