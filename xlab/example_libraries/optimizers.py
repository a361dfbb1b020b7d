"""Optimizers as triples of functions: one makes a state from parameters, one updates it by gradients, one reads the parameters.

A state is a pytree, so it can be compiled, batched and stored. `optimizer` makes an optimizer of trees from one of single arrays.

Example:
    >>> import xlab
    >>> init, update, get = sgd(0.1)
    >>> state = init({"w": 1.0})
    >>> for i in range(3):
    ...     state = update(i, xlab.grad(lambda p: p["w"] ** 2)(get(state)), state)
    >>> round(float(get(state)["w"]), 3)
    0.512
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

from xlab import numpy as jnp
from xlab import tree, tree_util

__all__ = [
    "JoinPoint", "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay",
    "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "pack_optimizer_state", "piecewise_constant",
    "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3", "unpack_optimizer_state",
]  # fmt: skip

OptimizerState = namedtuple("OptimizerState", ["packed_state", "tree_def", "subtree_defs"])
tree_util.register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda data, children: OptimizerState(children[0], *data),
)

Array = Any
Params = Any  # a tree of arrays
State = Any  # what an optimizer of single arrays keeps, a tree
Updates = Any  # a tree like the parameters
Step = int
Schedule = Callable[[Step], float]
InitFn = Callable[[Params], OptimizerState]
UpdateFn = Callable[[Step, Updates, OptimizerState], OptimizerState]
ParamsFn = Callable[[OptimizerState], Params]


class Optimizer(NamedTuple):
    """Three functions.

    Attributes:
        init_fn: from parameters to a state.
        update_fn: from a step, gradients and a state to the next state.
        params_fn: from a state to the parameters.
    """

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def optimizer(opt_maker: Callable) -> Callable[..., Optimizer]:
    """Decorates what makes an optimizer of single arrays: it makes one of trees then.

    Args:
        opt_maker: returns `(init, update, get_params)`: from an array to a state; from a step, a gradient and a state to a state;
            from a state to the array.
    """

    @functools.wraps(opt_maker)
    def tree_opt_maker(*args, **kwargs):
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params):
            leaves, structure = tree.flatten(params)
            states, structures = _flattened(init(jnp.asarray(x)) for x in leaves)
            return OptimizerState(states, structure, structures)

        def tree_update(i, grads, state):
            packed, structure, structures = state
            leaves, given = tree.flatten(grads)
            if given != structure:
                raise TypeError(
                    "optimizer update function was passed a gradient tree that did not match the parameter tree "
                    f"structure with which it was initialized: parameter tree {structure} and grad tree {given}."
                )
            states = map(tree.unflatten, structures, packed)
            after, found = _flattened(update(i, g, s) for g, s in zip(leaves, states))
            for old, new in zip(structures, found):
                if old != new:
                    raise TypeError(
                        "optimizer update function produced an output structure that did not match its input "
                        f"structure: input {old} and output {new}."
                    )
            return OptimizerState(after, structure, structures)

        def tree_get_params(state):
            packed, structure, structures = state
            states = map(tree.unflatten, structures, packed)
            return tree.unflatten(structure, [get_params(s) for s in states])

        return Optimizer(tree_init, tree_update, tree_get_params)

    return tree_opt_maker


def _flattened(states):
    pairs = [tree.flatten(state) for state in states]
    return tuple(leaves for leaves, _ in pairs), tuple(structure for _, structure in pairs)


# -- optimizers -----------------------------------------------------------------------------------------------


@optimizer
def sgd(step_size):
    """Steps against the gradient.

    Args:
        step_size: a number, or a function from the step to one.
    """
    step_size = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - step_size(i) * g), (lambda x: x)


def _pair(update):
    """The functions of an optimizer with one array beside the parameter."""
    return (lambda x: (x, jnp.zeros_like(x))), update, (lambda state: state[0])


def _triple(update):
    """The functions of an optimizer with two arrays beside the parameter."""
    return (
        (lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x))), update, (lambda state: state[0]),
    )  # fmt: skip


@optimizer
def momentum(step_size: Schedule, mass: float):
    """Steps along a sum of gradients whose older ones count less (Polyak 1964).

    Args:
        step_size: a number, or a function from the step to one.
        mass: what is left of the sum in a step.
    """
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * velocity, velocity

    return _pair(update)


@optimizer
def nesterov(step_size: Schedule, mass: float):
    """Momentum that looks one step ahead (Nesterov 1983).

    Args:
        step_size: a number, or a function from the step to one.
        mass: what is left of the sum in a step.
    """
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, velocity = state
        velocity = mass * velocity + g
        return x - step_size(i) * (mass * velocity + g), velocity

    return _pair(update)


@optimizer
def adagrad(step_size, momentum=0.9):
    """Steps divided by the root of the sum of squares (Duchi, Hazan and Singer 2011), with momentum.

    Args:
        step_size: a number, or a function from the step to one.
        momentum: what is left of the last step.
    """
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, squares, mean = state
        squares = squares + jnp.square(g)
        mean = (1 - momentum) * _divided(g, squares) + momentum * mean
        return x - step_size(i) * mean, squares, mean

    return _triple(update)


def _divided(g, squares):
    """A gradient divided by a root; zero where that is zero."""
    there = squares > 0
    return jnp.where(there, g / jnp.sqrt(jnp.where(there, squares, 1)), 0)


@optimizer
def rmsprop(step_size, gamma=0.9, eps=1e-8):
    """Steps divided by the root of the mean of squares (Tieleman and Hinton 2012).

    Args:
        step_size: a number, or a function from the step to one.
        gamma: what is left of the mean in a step.
        eps: is added to the mean.
    """
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, mean = state
        mean = mean * gamma + jnp.square(g) * (1 - gamma)
        return x - step_size(i) * g / jnp.sqrt(mean + eps), mean

    return _pair(update)


@optimizer
def rmsprop_momentum(step_size, gamma=0.9, eps=1e-8, momentum=0.9):
    """`rmsprop` with momentum.

    Args:
        step_size: a number, or a function from the step to one.
        gamma: what is left of the mean in a step.
        eps: is added to the mean.
        momentum: what is left of the last step.
    """
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, velocity = state
        mean = mean * gamma + jnp.square(g) * (1 - gamma)
        velocity = momentum * velocity + step_size(i) * g / jnp.sqrt(mean + eps)
        return x - velocity, mean, velocity

    return _triple(update)


@optimizer
def adam(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """Steps along a mean of gradients, divided by the root of a mean of squares, both without bias (Kingma and Ba 2014).

    Args:
        step_size: a number, or a function from the step to one.
        b1, b2: what is left of the means in a step.
        eps: is added to the root.
    """
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * jnp.square(g) + b2 * squares
        n = i + 1
        root = jnp.sqrt(squares / (1 - b2**n)) + eps
        return x - step_size(i) * (mean / (1 - b1**n)) / root, mean, squares

    return _triple(update)


@optimizer
def adamax(step_size, b1=0.9, b2=0.999, eps=1e-8):
    """`adam` with a maximum in place of the mean of squares (Kingma and Ba 2014, section 7.1).

    Args:
        step_size: a number, or a function from the step to one.
        b1, b2: what is left of the mean, and of the maximum, in a step.
        eps: is added to the maximum.
    """
    step_size = make_schedule(step_size)

    def update(i, g, state):
        x, mean, largest = state
        mean = (1 - b1) * g + b1 * mean
        largest = jnp.maximum(b2 * largest, jnp.abs(g))
        n = i + 1
        return x - step_size(i) / (1 - b1**n) * mean / (largest + eps), mean, largest

    return _triple(update)


@optimizer
def sm3(step_size, momentum=0.9):
    """`adagrad` that keeps one sum of squares per row and column, not per entry (Anil, Gupta, Koren and Singer 2019).

    Args:
        step_size: a number, or a function from the step to one.
        momentum: what is left of the last step.
    """
    step_size = make_schedule(step_size)

    def init(x):
        return x, jnp.zeros_like(x), [jnp.zeros(size, x.dtype) for size in x.shape or (1,)]

    def update(i, g, state):
        x, mean, sums = state
        shape = x.shape or (1,)
        along = [
            s.reshape([-1 if axis == d else 1 for axis in range(len(shape))])
            for d, s in enumerate(sums)
        ]
        squares = functools.reduce(jnp.minimum, along) + jnp.square(g).reshape(shape)
        mean = (1 - momentum) * _divided(g, squares.reshape(x.shape)) + momentum * mean
        others = [tuple(a for a in range(len(shape)) if a != d) for d in range(len(shape))]
        return x - step_size(i) * mean, mean, [squares.max(axes) for axes in others]

    return init, update, lambda state: state[0]


# -- steps ----------------------------------------------------------------------------------------------------


def make_schedule(scalar_or_schedule: float | Schedule) -> Schedule:
    """A function from the step to a number, from such a function or a number.

    Raises:
        TypeError: for anything else.
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if isinstance(scalar_or_schedule, str) or jnp.ndim(scalar_or_schedule) != 0:
        raise TypeError(f"a step size is a number or a function, got {scalar_or_schedule!r}")
    return constant(scalar_or_schedule)


def constant(step_size) -> Schedule:
    """The same number at each step."""

    def schedule(i):
        return step_size

    return schedule


def exponential_decay(step_size, decay_steps, decay_rate):
    """`step_size * decay_rate ** (i / decay_steps)`."""

    def schedule(i):
        return step_size * decay_rate ** (i / decay_steps)

    return schedule


def inverse_time_decay(step_size, decay_steps, decay_rate, staircase=False):
    """`step_size / (1 + decay_rate * i / decay_steps)`, the quotient rounded down with `staircase`."""

    def schedule(i):
        passed = jnp.floor(i / decay_steps) if staircase else i / decay_steps
        return step_size / (1 + decay_rate * passed)

    return schedule


def polynomial_decay(step_size, decay_steps, final_step_size, power=1.0):
    """From `step_size` to `final_step_size` in `decay_steps`, as a power of what is left of them."""

    def schedule(i):
        left = (1 - jnp.minimum(i, decay_steps) / decay_steps) ** power
        return left * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any):
    """`values[0]` to step `boundaries[0]`, the next value to the next boundary, and so on.

    Raises:
        ValueError: unless there is one value more than boundaries.
    """
    boundaries, values = jnp.asarray(boundaries), jnp.asarray(values)
    if not boundaries.ndim == values.ndim == 1:
        raise ValueError("boundaries and values must be sequences")
    if boundaries.shape[0] != values.shape[0] - 1:
        raise ValueError("boundaries length must be one shorter than values length")

    def schedule(i):
        return values[jnp.sum(i > boundaries)]

    return schedule


# -- norms, and states as trees -------------------------------------------------------------------------------


def l2_norm(tree):
    """The Euclidean norm of all numbers of a tree."""
    return jnp.sqrt(sum(jnp.vdot(x, x).real for x in tree_util.tree_leaves(tree)))


def clip_grads(grad_tree, max_norm):
    """Gradients of a norm of at most `max_norm`, as long as that where they were longer."""
    norm = l2_norm(grad_tree)
    shorter = lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm))
    return tree.map(shorter, grad_tree)


class JoinPoint:
    """Marks where the state of one parameter stands in a tree; a leaf, so that the outer tree is the parameters' own."""

    def __init__(self, subtree):
        self.subtree = subtree

    def __iter__(self):
        yield self.subtree


def unpack_optimizer_state(opt_state):
    """A state as a tree like the parameters, with a `JoinPoint` for each: to store it, or to change single states."""
    packed, structure, structures = opt_state
    states = map(tree.unflatten, structures, packed)
    return tree.unflatten(structure, [JoinPoint(s) for s in states])


def pack_optimizer_state(marked_pytree):
    """The state from a tree that `unpack_optimizer_state` made.

    Raises:
        TypeError: where a leaf is no `JoinPoint`.
    """
    points, structure = tree.flatten(marked_pytree)
    for point in points:
        if not isinstance(point, JoinPoint):
            raise TypeError(f"every leaf is a JoinPoint, got {type(point).__name__}")
    states, structures = _flattened(point.subtree for point in points)
    return OptimizerState(states, structure, structures)
