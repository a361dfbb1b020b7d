"""What `vmap` asks of the classes of results."""

from __future__ import annotations

import xlab
import xlab.numpy as jnp


def test_classes_that_sort_values_from_settings():
    """What is an array when a tree is taken apart decides what its leaves are; a bare object stands for one."""

    @xlab.tree_util.register_pytree_node_class
    class Model:
        def __init__(self, weight, size):
            self.weight, self.size = weight, size

        def tree_flatten(self):
            parts = self.weight, self.size
            is_value = [isinstance(x, xlab.Array) or type(x) is object for x in parts]
            return [x for x, v in zip(parts, is_value) if v], (
                tuple(is_value),
                tuple(x for x, v in zip(parts, is_value) if not v),
            )

        @classmethod
        def tree_unflatten(cls, how, values):
            values, settings = iter(values), iter(how[1])
            return cls(*(next(values) if v else next(settings) for v in how[0]))

    xs = jnp.arange(6.0).reshape(2, 3)
    for out_axes in (0, {"m": 0, "n": None}):
        made = xlab.vmap(lambda x: {"m": Model(x * 2, 3), "n": jnp.ones(())}, out_axes=out_axes)(xs)
        assert made["m"].size == 3 and made["m"].weight.shape == (2, 3)
    here = xlab.sharding.SingleDeviceSharding(xlab.devices()[0])
    model = xlab.jit(lambda m: {"m": m}, in_shardings=(here,), out_shardings={"m": here})(
        Model(xs, 3)
    )["m"]
    assert model.size == 3 and model.weight.shape == (2, 3)
