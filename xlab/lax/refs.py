"""Mutable references: the primitives that make, read, write and end them. The functions are in `ref_functions.py`.

`get`, `swap` and `addupdate` carry what they access as a tree of transforms (`ref_transforms.py`) whose leaves are operands. They are never
lowered: `interpreters/discharge.py` first replaces them by what they mean on values. Batching is in `ref_batching.py`.
"""

from __future__ import annotations

import functools

import numpy as np

from xlab import tree as _tree
from xlab.backend import caches
from xlab.compile.jit import jit
from xlab.compile.placement import host_array, on_default_device
from xlab.core import dtypes
from xlab.core import effects as _effects
from xlab.core import printing as _printing
from xlab.core.avals import HOST_VALUES, aval_of, escaped_tracer
from xlab.core.primitive import Primitive
from xlab.core.refs import AbstractRef, Ref
from xlab.core.trace import is_tracer, state
from xlab.interpreters import ad, costs, mlir
from xlab.interpreters import partial_eval as pe
from xlab.interpreters.ad.transpose import RefCotangent
from xlab.interpreters.discharge import discharge_rules
from xlab.lax.comparison import eq, select
from xlab.lax.convert import convert
from xlab.lax.creation import full, iota, zeros_like_aval
from xlab.lax.indexers import NDIndexer
from xlab.lax.ref_transforms import has_bitcast, part_of, read, write
from xlab.lax.shape import reshape
from xlab.lax.uninitialized import uninitialized

# -- eagerly -----------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _reader(tree):
    return jit(lambda x, *leaves: read(x, _tree.unflatten(tree, leaves)), name="get")


@functools.lru_cache(maxsize=1024)
def _writer(tree, update, donate):
    def run(x, value, *leaves):
        transforms = _tree.unflatten(tree, leaves)
        new = write(x, transforms, value, "add" if update == "addupdate" else "set")
        return (new, read(x, transforms)) if update == "swap" else new

    run._owns_what_it_is_given = True  # the array has no other owner
    return jit(run, name=update, donate_argnums=(0,) if donate else None)


caches.register(_reader.cache_clear)
caches.register(_writer.cache_clear)


def _concrete_ref(ref):
    if type(ref) is not Ref and is_tracer(ref):
        raise escaped_tracer(ref, "as a reference")
    return ref


def store(ref: Ref, value, leaves, tree, update):
    """Eager write; reuses the buffer if the reference is its only owner."""
    operation = addupdate_p if update == "addupdate" else swap_p
    operation.abstract((ref.aval, *map(aval_of, (value, *leaves))), {"tree": tree})
    x = _concrete_ref(ref).peek()
    if not leaves and update != "addupdate" and not tree.num_leaves and tree.num_nodes == 1:
        ref.store(_concrete(value, ref.aval.inner_aval), shared=True)
        return x
    out = _writer(tree, update, ref.owned)(x, value, *leaves)
    ref.store(out[0] if update == "swap" else out)
    return out[1] if update == "swap" else None


def _concrete(value, aval):
    if isinstance(value, HOST_VALUES):
        return on_default_device(host_array(value, aval), aval)
    return value


# -- get ----------------------------------------------------------------------------------------------------


def _selected(name, ref, leaves, tree):
    if type(ref) is not AbstractRef:
        raise ValueError(f"`{name}` must be called on `Ref` types: {ref}.")
    return part_of(ref.inner_aval, _tree.unflatten(tree, leaves))


def _primitive(name, **options):
    prim = Primitive(name, auto_pvary=False, **options)
    prim.takes_refs = True
    mlir.lowerings.excuse(prim, "references are discharged before lowering")
    return prim


get_p = _primitive("get")


@get_p.def_effectful_abstract_eval
def _get_aval(ref, *leaves, tree):
    return _selected("get", ref, leaves, tree), {_effects.ReadEffect(0)}


@get_p.def_impl
def _get_impl(ref, *leaves, tree):
    get_p.abstract((aval_of(ref), *map(aval_of, leaves)), {"tree": tree})
    ref = _concrete_ref(ref)
    if tree.num_nodes == 1:
        return ref.share()
    return _reader(tree)(ref.peek(), *leaves)


def _get_jvp(primals, tangents, *, tree):
    out = get_p.bind(*primals, tree=tree)
    if type(tangents[0]) is ad.Zero or _reads_bits("get", primals[0], out, tree):
        return out, ad.Zero.of(out)
    return out, get_p.bind(tangents[0], *primals[1:], tree=tree)


def _reads_bits(what, ref, value, tree) -> bool:
    """Whether an access is of bits as integers, which have no derivative."""
    if not tree.num_nodes > 1 or not has_bitcast(tree):
        return False
    if dtypes.issubdtype(aval_of(value).dtype, np.inexact):
        raise NotImplementedError(
            f"{what} through a bitcast from {dtypes.name(aval_of(ref).dtype)} to "
            f"{dtypes.name(aval_of(value).dtype)} cannot be differentiated: the bits of a tangent are not the tangent of "
            f"the bits. Read the reference and use xlab.lax.bitcast_convert_type on xlab.lax.stop_gradient(value)."
        )
    return True


def _get_transpose(ct, ref, *leaves, tree):
    if type(ref) is RefCotangent and type(ct) is not ad.Zero:
        addupdate_p.bind(ref.ref, ct, *leaves, tree=tree)
    return [None] * (1 + len(leaves))


@functools.partial(discharge_rules.__setitem__, get_p)
def _get_discharge(eqn, ref_mask, operands):
    x, *leaves = operands
    return {}, [_as(read(x, _tree.unflatten(eqn.params["tree"], leaves)), eqn.outvars[0].aval)]


def _as(x, aval):
    """A value whose weakness is that of the type it has in the program."""
    got = aval_of(x)
    return x if got.weak_type == aval.weak_type else convert(x, aval.dtype, aval.weak_type)


ad.primitive_jvps[get_p] = _get_jvp
ad.primitive_transposes[get_p] = _get_transpose


# -- swap and addupdate -------------------------------------------------------------------------------------


def check_stored(name, ref, value, part):
    if type(value) is AbstractRef:
        raise ValueError(
            "Cannot store a Ref into another Ref. Did you forget to load from it using `[...]`?"
        )
    if value.shape != part.shape:
        raise ValueError(
            f"Invalid shape for `{name}`. Ref shape: {ref.shape}. Expected shape: {part.shape}. Value shape: "
            f"{value.shape}. Nothing is broadcast when a reference is written: use xlab.numpy.broadcast_to."
        )
    if value.dtype != part.dtype and value.dtype != dtypes.float0:
        raise ValueError(
            f"Invalid dtype for `{name}`. Ref dtype: {dtypes.name(ref.dtype)}. Value dtype: "
            f"{dtypes.name(value.dtype)}. Convert the value with .astype(ref.dtype)."
        )
    if value.mat != part.mat:
        raise ValueError(
            f"`{name}` got a value of type {value} for a reference of type {ref}: the value varies over mesh axes "
            f"that the reference does not. Make the reference inside the shard_map, or give it a spec that is sharded "
            f"over these axes."
        )


swap_p = _primitive("swap")


@swap_p.def_effectful_abstract_eval
def _swap_aval(ref, value, *leaves, tree):
    part = _selected("swap", ref, leaves, tree)
    check_stored("swap", ref, value, part)
    return part, {_effects.WriteEffect(0)}


@swap_p.def_impl
def _swap_impl(ref, value, *leaves, tree):
    return store(ref, value, leaves, tree, "swap")


def _no_tangent(what, ref):
    return ValueError(
        f"performing {what} operation with a differentiated value on a non-differentiated array reference of type {aval_of(ref)}. "
        f"Move the array reference to be an argument of the differentiated function, store xlab.lax.stop_gradient(value), or make "
        f"the reference with kind='no_grad_no_remat'."
    )


def stored_tangent(what, primals, tangents):
    """The tangent to store in the tangent reference; None if there is nothing to store."""
    ref, tangent = primals[0], tangents[1]
    if type(tangents[0]) is not ad.Zero:
        return ad.instantiate_zeros(tangent)
    if type(tangent) is not ad.Zero and aval_of(ref).kind != "no_grad_no_remat":
        raise _no_tangent(what, ref)
    return None


def _swap_jvp(primals, tangents, *, tree):
    t = stored_tangent("a set/swap", primals, tangents)
    out = swap_p.bind(*primals, tree=tree)
    if t is None:
        return out, ad.Zero.of(out)
    if _reads_bits("swap", primals[0], out, tree):  # what is stored there is constant
        swap_p.bind(tangents[0], zeros_like_aval(aval_of(out)), *primals[2:], tree=tree)
        return out, ad.Zero.of(out)
    return out, swap_p.bind(tangents[0], t, *primals[2:], tree=tree)


def _swap_transpose(ct, ref, value, *leaves, tree):
    part = _selected("swap", aval_of(ref.ref), map(aval_of, leaves), tree)
    nothing = zeros_like_aval(part.strip_weak_type())
    linear, transforms = ad.is_undefined_primal(value), _tree.unflatten(tree, leaves)
    if any(isinstance(t, NDIndexer) and t.int_indexer_shape for t in transforms):
        # Where positions repeat, each of them reads the old element, and only the last is stored.
        old = swap_p.bind(ref.ref, nothing, *leaves, tree=tree)
        if linear:
            old = select(_kept(ref.ref, part, leaves, tree), old, nothing)
        if type(ct) is not ad.Zero:
            addupdate_p.bind(ref.ref, ct, *leaves, tree=tree)
    else:
        given = nothing if type(ct) is ad.Zero else ct
        old = swap_p.bind(ref.ref, given, *leaves, tree=tree)
    return [None, old if linear else None, *[None] * len(leaves)]


def _kept(ref, part, leaves, tree):
    """Which elements of what is written are there afterwards, where positions repeat."""
    numbers = reshape(iota(np.int32, part.size), part.shape)
    written = new_ref_p.bind(full(aval_of(ref).shape, -1, np.int32), memory_space=None, kind=None)
    swap_p.bind(written, numbers, *leaves, tree=tree)
    return eq(get_p.bind(written, *leaves, tree=tree), numbers)


@functools.partial(discharge_rules.__setitem__, swap_p)
def _swap_discharge(eqn, ref_mask, operands):
    x, value, *leaves = operands
    transforms = _tree.unflatten(eqn.params["tree"], leaves)
    inner = eqn.invars[0].aval.inner_aval
    old = _as(read(x, transforms), eqn.outvars[0].aval)
    return {0: _as(write(x, transforms, _as(value, eqn.outvars[0].aval)), inner)}, [old]


addupdate_p = _primitive("addupdate", multiple_results=True)


@addupdate_p.def_effectful_abstract_eval
def _addupdate_aval(ref, value, *leaves, tree):
    check_stored("addupdate", ref, value, _selected("addupdate", ref, leaves, tree))
    return [], {_effects.AccumEffect(0)}


@addupdate_p.def_impl
def _addupdate_impl(ref, value, *leaves, tree):
    store(ref, value, leaves, tree, "addupdate")
    return []


def _addupdate_jvp(primals, tangents, *, tree):
    t = stored_tangent("an addupdate", primals, tangents)
    addupdate_p.bind(*primals, tree=tree)
    if t is not None and tree.num_nodes > 1 and has_bitcast(tree):
        raise NotImplementedError(
            f"addupdate through a bitcast of a reference of type {aval_of(primals[0])} cannot be differentiated: a sum of "
            f"bits has no derivative"
        )
    if t is not None:
        addupdate_p.bind(tangents[0], t, *primals[2:], tree=tree)
    return [], []


def _addupdate_transpose(cts, ref, value, *leaves, tree):
    ct = get_p.bind(ref.ref, *leaves, tree=tree) if ad.is_undefined_primal(value) else None
    return [None, ct, *[None] * len(leaves)]


@functools.partial(discharge_rules.__setitem__, addupdate_p)
def _addupdate_discharge(eqn, ref_mask, operands):
    x, value, *leaves = operands
    new = write(x, _tree.unflatten(eqn.params["tree"], leaves), value, "add")
    return {0: _as(new, eqn.invars[0].aval.inner_aval)}, []


def _partial_write(prim, what):
    def rule(trace, args, *, tree):
        if not trace.is_unknown(args[0]) and trace.is_unknown(args[1]):
            raise _no_tangent(what, args[0])
        return trace.record_unknown(prim, args, {"tree": tree})

    return rule


ad.primitive_jvps[swap_p] = _swap_jvp
ad.primitive_transposes[swap_p] = _swap_transpose
pe.partial_eval_rules[swap_p] = _partial_write(swap_p, "a set/swap")
ad.primitive_jvps[addupdate_p] = _addupdate_jvp
ad.primitive_transposes[addupdate_p] = _addupdate_transpose
pe.partial_eval_rules[addupdate_p] = _partial_write(addupdate_p, "an addupdate")


# -- beginning and end --------------------------------------------------------------------------------------

new_ref_p = _primitive("new_ref")
new_ref_p.takes_refs, new_ref_p.makes_ref = False, True


@new_ref_p.def_effectful_abstract_eval
def _new_ref_aval(x, *, memory_space, kind):
    return AbstractRef(x, memory_space, kind), {_effects.INTERNAL_REF}


@new_ref_p.def_impl
def _new_ref_impl(x, *, memory_space, kind):
    aval = aval_of(x)
    return Ref(AbstractRef(aval, memory_space, kind), _concrete(x, aval))


def _tangent_ref(ref, t):
    """The reference that holds the tangent of another: `t` at first. Its contents wait, whatever `t` is."""
    aval = aval_of(ref)
    if aval.kind == "no_grad_no_remat" or aval.to_tangent_aval().dtype == dtypes.float0:
        return ad.Zero.of(ref)
    params = {"memory_space": aval.memory_space, "kind": aval.kind}
    make = (
        functools.partial(state.trace.record_unknown, new_ref_p)
        if isinstance(state.trace, pe.JaxprTrace)
        else None
    )
    t = ad.instantiate_zeros(t)
    return make((t,), params) if make else new_ref_p.bind(t, **params)


def _new_ref_jvp(primals, tangents, **params):
    ref = new_ref_p.bind(*primals, **params)
    return ref, _tangent_ref(ref, tangents[0])


ad.primitive_jvps[new_ref_p] = _new_ref_jvp
ad.primitive_transposes[new_ref_p] = lambda ct, x, **_: [ct]
discharge_rules[new_ref_p] = lambda eqn, ref_mask, operands: (
    {},
    [_as(operands[0], eqn.outvars[0].aval.inner_aval)],
)

empty_ref_p = _primitive("empty_ref")
empty_ref_p.takes_refs, empty_ref_p.makes_ref = False, True


@empty_ref_p.def_effectful_abstract_eval
def _empty_ref_aval(*, ty, memory_space):
    return AbstractRef(ty, memory_space), {_effects.INTERNAL_REF}


@empty_ref_p.def_impl
def _empty_ref_impl(*, ty, memory_space):
    return Ref(AbstractRef(ty, memory_space), uninitialized(ty))


def _empty_ref_jvp(primals, tangents, **params):
    ref = empty_ref_p.bind(**params)
    return ref, _tangent_ref(ref, ad.Zero(aval_of(ref).inner_aval.to_tangent_aval()))


ad.primitive_jvps[empty_ref_p] = _empty_ref_jvp
ad.primitive_transposes[empty_ref_p] = lambda ct, **_: []
discharge_rules[empty_ref_p] = lambda eqn, ref_mask, operands: (
    {},
    [uninitialized(eqn.params["ty"])],
)

freeze_p = _primitive("freeze")
freeze_p.ends_ref = True


@freeze_p.def_effectful_abstract_eval
def _freeze_aval(ref):
    return ref.inner_aval, {_effects.ReadEffect(0)}


freeze_p.def_impl(lambda ref: ref.end("freeze"))


def _freeze_jvp(primals, tangents):
    out = freeze_p.bind(*primals)
    return out, ad.Zero.of(out) if type(tangents[0]) is ad.Zero else freeze_p.bind(tangents[0])


def _freeze_transpose(ct, ref):
    if type(ct) is not ad.Zero:
        addupdate_p.bind(ref.ref, ct, tree=_WHOLE)
    return [None]


ad.primitive_jvps[freeze_p] = _freeze_jvp
ad.primitive_transposes[freeze_p] = _freeze_transpose
discharge_rules[freeze_p] = lambda eqn, ref_mask, operands: (
    {},
    [_as(operands[0], eqn.outvars[0].aval)],
)

free_ref_p = _primitive("free_ref", multiple_results=True)
free_ref_p.ends_ref = True
free_ref_p.def_effectful_abstract_eval(lambda ref: ([], {_effects.WriteEffect(0)}))


@free_ref_p.def_impl
def _free_ref_impl(ref):
    ref.end("free_ref")
    return []


def _free_ref_jvp(primals, tangents):
    for x in (*primals, *tangents):
        if type(x) is not ad.Zero:
            free_ref_p.bind(x)
    return [], []


ad.primitive_jvps[free_ref_p] = _free_ref_jvp
ad.primitive_transposes[free_ref_p] = lambda cts, ref: [None]
discharge_rules[free_ref_p] = lambda eqn, ref_mask, operands: ({}, [])

_WHOLE = _tree.structure(())
ad.set_ref_operations(
    lambda aval: new_ref_p.bind(
        zeros_like_aval(aval.inner_aval), memory_space=None, kind=aval.kind
    ),
    freeze_p.bind,
)


# -- printing -----------------------------------------------------------------------------------------------


def _indexed_ref_text(eqn, names, first):
    leaves = [_printing.atom_text(a, names).split(":")[0] for a in eqn.invars[first:]]
    transforms = _tree.unflatten(eqn.params["tree"], leaves)
    return names(eqn.invars[0]) + ("".join(t.text() for t in transforms) or "[...]")


def _get_text(eqn, names, used):
    return f"{_printing.binders(eqn.outvars, names, used)} <- {_indexed_ref_text(eqn, names, 1)}"


def _swap_text(eqn, names, used):
    place, value = _indexed_ref_text(eqn, names, 2), _printing.atom_text(eqn.invars[1], names)
    if used is not None and eqn.outvars[0] not in used:
        return f"{place} <- {value}"
    return f"{_printing.binders(eqn.outvars, names, used)}, {place} <- {place}, {value}"


def _addupdate_text(eqn, names, used):
    return f"{_indexed_ref_text(eqn, names, 2)} += {_printing.atom_text(eqn.invars[1], names)}"


_printing.print_as("get", _get_text)
_printing.print_as("swap", _swap_text)
_printing.print_as("addupdate", _addupdate_text)
for _name in (
    "get",
    "swap",
    "addupdate",
):  # where operands and parameters are listed, indices are operands
    _printing.hide_params(_name, "tree")


def _read_cost(avals_in, avals_out, **_):
    """The part of a reference that is read, or written."""
    part = costs.bytes_of(avals_out[:1] or avals_in[1:2])
    return costs.Cost(nbytes=2 * part, referenced=part)


def _added_cost(avals_in, avals_out, **_):
    part = costs.bytes_of(avals_in[1:2])
    return costs.Cost(avals_in[1].size, nbytes=3 * part, referenced=2 * part)


costs.register(_read_cost, get_p, swap_p)
costs.register(_added_cost, addupdate_p)
costs.register(costs.free, empty_ref_p, freeze_p, free_ref_p)
costs.register(costs.moves, new_ref_p)
