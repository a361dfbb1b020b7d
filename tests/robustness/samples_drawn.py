"""Calls drawn at random for every public function of the array rooms: arguments by what its parameters are called.

Calls of a function share one sample. A call that raises counts as its own kind of result: what the reference returns must be
returned here; where it raises, the tables of bad input say what has to come. `XLAB_DRAWN_CALLS` raises the number of calls per
function (2 here), `XLAB_DRAWN_SEED` draws others.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import os
import random

import ml_dtypes
import numpy as np

from tests.reference.sample import Sample

COMPARED_IN = "tests/robustness/test_drawn.py"


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


COUNT = int(os.environ.get("XLAB_DRAWN_CALLS", "2"))
SEED = os.environ.get("XLAB_DRAWN_SEED", "0")
ROOMS = ("numpy", "numpy.linalg", "numpy.fft", "nn", "lax", "scipy.special")
# Nothing to compare: they return what is not an array, take functions, write files, need a mesh's axis, or are not in the reference.
LEFT_OUT = words("""
    save savez load fromfile fromfunction fromiter apply_along_axis apply_over_axes vectorize frompyfunc piecewise from_dlpack
    printoptions set_printoptions get_printoptions array_repr array_str array2string empty empty_like einsum_path
    while_loop scan fori_loop cond switch map associative_scan reduce reduce_window custom_root custom_linear_solve composite
    rng_uniform rng_bit_generator create_token after_all infeed outfeed platform_dependent optimization_barrier
    ppermute psum pmax pmin pmean all_gather all_to_all axis_index axis_size pcast pvary pshuffle psum_scatter pswapaxes pbroadcast
    ppermute_start psum_start all_gather_start all_to_all_start psum_scatter_start pbroadcast_start
    all_gather_reduced device_put with_sharding_constraint ragged_all_to_all psend precv fix copy pargmax pargmin
""")


def flat(x):
    return [leaf for part in x for leaf in flat(part)] if isinstance(x, (list, tuple)) else [x]


def holds(*kinds: str):
    """Tells calls with an operand of one of these kinds of dtype, in NumPy's letters."""
    return lambda args, kwargs: any(np.asarray(x).dtype.kind in kinds for x in flat([args, list(kwargs.values())]) if x is not None)


def scalar(args, kwargs):
    return np.ndim(args[0]) == 0


def number(args, kwargs):
    return not isinstance(args[0], np.ndarray)


def own_mean(args, kwargs):
    return kwargs.get("dtype") in ("int32", "bool") or np.ndim(kwargs.get("mean")) > np.ndim(args[0])


def complex_distance(args, kwargs):
    return np.iscomplexobj(kwargs.get("d"))


def no_axis(args, kwargs):
    return kwargs.get("axis", -1) is None


def some(i: int, test):
    """Tells calls where some element of operand `i` passes the test."""
    return lambda args, kwargs: args[i] is not None and bool(np.any(test(np.asarray(args[i]))))


def always(args, kwargs):
    return True


# Calls whose results differ from the reference's for a reason: which, and why. Others are drawn in their place.
DIFFERENT = {
    "numpy.all": (holds("c"), "a complex number is true where any part of it is not zero, as in NumPy"),
    "numpy.any": (holds("c"), "as all"),
    "numpy.angle": (number, "numbers without a shape keep their dtype, as arrays do"),
    "numpy.nanmedian": (scalar, "keepdims of what has no dimensions adds none"),
    "numpy.prod": (holds("c"), "of complex numbers as booleans, as all"),
    "numpy.reshape": (always, "returns an array, of NumPy's too"),
    "numpy.searchsorted": (lambda args, kwargs: np.ndim(kwargs.get("sorter")) != 1, "an order that is not a vector is not taken for one"),
    "numpy.repeat": (some(1, lambda x: x.real < 0), "counts below zero count as none"),
    "numpy.var": (own_mean, "a variance in integers is refused, as std refuses it; a mean of more dimensions than the array counts"),
    "numpy.nanvar": (own_mean, "as var"),
    "numpy.unique_all": (scalar, "the values of a scalar stay weak, as those of unique do"),
    "numpy.unique_counts": (scalar, "as unique_all"),
    "numpy.unique_inverse": (scalar, "as unique_all"),
    "numpy.unique_values": (scalar, "as unique_all"),
    "numpy.fft.fft": (no_axis, "axis=None is refused, as NumPy refuses it"),
    "numpy.fft.ifft": (no_axis, "as fft"),
    "numpy.fft.rfft": (no_axis, "as fft"),
    "numpy.fft.fftfreq": (complex_distance, "the distance is real"),
    "numpy.fft.rfftfreq": (complex_distance, "as fftfreq"),
    "numpy.fft.rfftn": (scalar, "of what has no dimensions is a floating-point number the Fourier transform takes"),
    "nn.softplus": (holds("b", "c"), "weak types of booleans; inf of a complex infinity"),
    "nn.squareplus": (holds("b"), "weak types of booleans"),
    "lax.broadcast_shapes": (always, "a shape is a tuple"),
    "lax.broadcast_to_rank": (always, "NumPy arrays that have the rank are returned as they are"),
    "lax.stop_gradient": (always, "returns an array where the reference returns NumPy's, and numbers without a derivative as they are"),
    "scipy.special.boxcox1p": (holds("c"), "refuses complex numbers"),
    "scipy.special.expi": (some(0, lambda x: x == 0), "-inf at its pole, zero"),
    "scipy.special.expn": (some(0, lambda x: x.real < 0), "NaN for orders below zero, as SciPy"),
    "scipy.special.hyp1f1": (always, "at poles"),
    "scipy.special.hyp2f1": (always, "at poles, and where the reference's series diverges"),
    "scipy.special.kl_div": (holds("b"), "weak types of booleans"),
    "scipy.special.owens_t": (holds("c"), "refuses complex numbers"),
    "scipy.special.spence": (lambda args, kwargs: isinstance(args[0], (list, tuple)), "lists are not converted implicitly"),
}
SHAPES = [(), (), (1,), (3,), (4,), (0,), (2, 3), (3, 3), (3, 2), (1, 3), (2, 1), (0, 3), (2, 3, 4), (2, 3, 3), (2, 2)]
DTYPES = ["float32"] * 5 + ["int32"] * 4 + ["bool", "bool", "complex64", "complex64", "uint8", "int8", "float16", "bfloat16"]
SCALARS = [0, 1, 2, -1, 3, 2.5, -0.5, 1.0, True, False, 1j, np.float32(1.5), np.int32(2)]
LISTS = [[1, 2, 3], [[1, 2], [3, 4]], [1.5, -2.0], (1, 2), [True, False], [], np.array([3, 1, 2])]
OPERANDS = words("x a b y ar m_ arr x1 x2 p v operand lhs rhs ar1 ar2 val vals")
LISTED = words("arrays arrs tup seq operands xi arys array_list choicelist condlist")
TOLERANCE = 2e-2        # of short floats: the tables compare digits, here wrong numbers are meant
# What a parameter of these names is given.
CHOICES = {names: choices for texts, choices in [
    ("axis axes dimension axis1 axis2 source destination start_axis", [0, -1, 1, None, (0, 1), (0,), -2, 5]),
    ("keepdims endpoint sparse copy assume_unique return_index return_inverse return_counts increasing right density hermitian "
     "full_matrices compute_uv equal_nan rowvar bias exclusive reverse stable descending invert cumulative retstep unique_indices "
     "indices_are_sorted full strip_zeros is_stable lower upper symmetrize_input unroll inverse left_side unit_diagonal", [True, False]),
    ("dtype preferred_element_type", [None, "float32", "int32", "bool", "complex64", "float16"]),
    ("n k m num shift decimals num_segments ddof deg order offset repeats minlength length size total_repeat_length rank ndmin bins "
     "correction num_classes max_index index stride_in_dim limit_index start_index", [0, 1, 2, 3, -1, None, 4]),
    ("shape newshape new_sizes reps target_shape sizes dims", [(3,), (2, 3), (6,), (-1,), 3, (1, 3), (2, -1), (), (3, 1)]),
    ("mode", ["full", "same", "valid", "constant", "edge", "wrap", "clip", "fill", "reflect", "symmetric", "reduced", None]),
    ("method side indexing kind norm ord", ["linear", "lower", "left", "right", "xy", "ij", "ortho", None, 1, 2, np.inf, "fro", "nuc",
                                            "nearest", "midpoint", "hazen", -1]),
    ("out where sharding out_sharding device precision interpolation", [None]),
    ("subscripts", ["ij,jk->ik", "ij->ji", "i,i", "ii", "...i->...", "ij->"]),
    ("a_min a_max min max fill_value lo hi posinf neginf nan rtol atol initial left period prepend append", [*SCALARS, None, None]),
    ("pad_width", [1, (1, 2), ((1, 0), (0, 2)), 0]),
    ("permutation dimensions broadcast_dimensions", [(0,), (1, 0), (0, 1), (), (0, 1, 2)]),
    ("indices ind idx", [0, [0, 1], np.array([1, 0]), np.array([[0, 5], [-1, 2]]), np.array(2)]),
] for names in texts.split()}  # fmt: skip


def array(r: random.Random, shape=None):
    """Small numbers of any dtype, whole ones often, seldom with one that is not finite."""
    shape, dtype = r.choice(SHAPES) if shape is None else shape, r.choice(DTYPES)
    g = np.random.RandomState(r.randrange(1 << 30))
    whole = r.random() < 0.4
    if dtype == "bool":
        return np.asarray(g.rand(*shape) > 0.5)
    if "int" in dtype:
        return g.randint(0 if whole or dtype == "uint8" else -4, 5, shape).astype(dtype)
    x = np.asarray(g.randint(-3, 4, shape) if whole else np.round(g.randn(*shape) * 2, 2), np.float64)
    if dtype == "complex64":
        x = x + 1j * np.round(g.randn(*shape), 2)
    if x.size and r.random() < 0.08:
        x = np.array(x)
        x.reshape(-1)[g.randint(x.size)] = r.choice([np.nan, np.inf, -np.inf])
    return x.astype(getattr(ml_dtypes, dtype, dtype))


def value(r: random.Random, name: str, shape):
    """An argument for a parameter of that name; operands of one call mostly share `shape`."""
    if name in CHOICES:
        return r.choice(CHOICES[name])
    if name in LISTED:
        shared = r.choice(SHAPES)
        return [array(r, shared) for _ in range(r.randint(1, 3))]
    if name in OPERANDS:
        chance = r.random()
        if chance < 0.75:
            return array(r, shape if r.random() < 0.7 else None)
        return r.choice(SCALARS if chance < 0.9 else LISTS)
    return r.choice([array(r, shape), array(r), r.choice(SCALARS), None])


def arguments(signature: inspect.Signature, r: random.Random) -> tuple[list, dict]:
    """Arguments for a call: every required parameter, of the others about a third."""
    shape, args, kwargs = r.choice(SHAPES), [], {}
    parameters = signature.parameters.values()
    several = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    for p in parameters:
        if p.kind is p.VAR_POSITIONAL:
            args += [value(r, "x", shape) for _ in range(r.randint(0 if args else 1, 1 if args else 3))]
        elif p.kind is p.VAR_KEYWORD:
            continue
        elif p.default is p.empty:
            given = value(r, p.name, shape)
            if p.kind is p.KEYWORD_ONLY:
                kwargs[p.name] = given
            else:
                args.append(given)
        elif not several and p.kind is not p.POSITIONAL_ONLY and r.random() < 0.3:
            kwargs[p.name] = value(r, p.name, shape)
    return args, kwargs


def functions():
    """`(room, name, signature)` of everything that is called."""
    for room in ROOMS:
        home = importlib.import_module(f"xlab.{room}")
        for name in sorted(dir(home)):      # what is loaded when it is first used, too
            function = getattr(home, name)
            if name.startswith("_") or name.endswith("_p") or not callable(function) or inspect.isclass(function):
                continue
            if name in LEFT_OUT or DIFFERENT.get(f"{room}.{name}", (None,))[0] is always:
                continue
            if not getattr(function, "__module__", "").startswith(f"xlab.{room}"):
                continue        # a helper from elsewhere
            try:
                yield room, name, inspect.signature(function)
            except (TypeError, ValueError):     # scalar types and the like
                continue


def drawn(room: str, name: str, signature) -> Sample:
    """The sample of a function: as many calls as asked for, their results in one list."""
    differs, _ = DIFFERENT.get(f"{room}.{name}", (lambda args, kwargs: False, ""))
    every = (arguments(signature, random.Random(f"{SEED}:{room}.{name}:{i}")) for i in itertools.count())
    calls = list(itertools.islice((call for call in every if not differs(*call)), COUNT))

    def fun(n):
        function = getattr(importlib.import_module(f"{n.name}.{room}"), name)
        return [outcome(function, *call) for call in calls]
    CALLS[f"{room}.{name}"] = [", ".join([*map(written, args), *(f"{k}={written(v)}" for k, v in kwargs.items())]) for args, kwargs in calls]
    return Sample(f"{room}.{name}", fun, transforms=("eager",), tol=TOLERANCE)


def written(x) -> str:
    """An argument as one may paste it."""
    if isinstance(x, list):
        return f"[{', '.join(map(written, x))}]"
    return f"np.array({x.tolist()}, {str(x.dtype)!r})" if isinstance(x, np.ndarray) else repr(x)


def outcome(function, args, kwargs):
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return Raised(f"{type(error).__name__}: {error}")


class Raised(str):
    """The words of an error, in the place of a result."""


CALLS: dict[str, list[str]] = {}     # the arguments of every sample's calls, for messages
SAMPLES = [drawn(*found) for found in functions()]
