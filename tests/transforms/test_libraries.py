"""What libraries do with transformations: odd callables, operands handed through, empty batches, classes of numbers."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import lax
from xlab.core.avals import ShapedArray
from xlab.core.primitive import Primitive
from xlab.core.promotion import TypePromotionError
from xlab.experimental import checkify
from xlab.interpreters import ad, batching, mlir
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P
from xlab.test_util import check_grads


class Squared:
    """A function whose name is no text."""

    __name__ = 3

    def __call__(self, x):
        return x * x


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("grad", 6.0),
        ("value_and_grad", (9.0, 6.0)),
        ("jacfwd", 6.0),
        ("jacrev", 6.0),
        ("hessian", 2.0),
        ("checkpoint", 9.0),
        ("jit", 9.0),
        ("custom_jvp", 9.0),
        ("custom_vjp", 9.0),
        ("named_call", 9.0),
        ("make_jaxpr", None),
    ],
)
def test_a_name_that_is_no_text(name, expected):
    wrapped = getattr(xlab, name)(Squared())
    if name.startswith("custom"):
        return
    found = wrapped(3.0)
    assert expected is None or found == expected
    assert xlab.vmap(Squared())(jnp.ones(2)).tolist() == [1, 1]


def _tripled():
    @xlab.custom_jvp
    def fun(x):
        return 3 * x

    fun.defjvp(lambda primals, tangents: (fun(*primals), 5 * tangents[0]))
    return fun


@pytest.mark.parametrize(
    ("fun", "value", "tangent"),
    [
        (lambda x: x, 2.0, 7.0),
        (_tripled(), 6.0, 35.0),
        (lambda x: 4, 4, None),
        (lambda x: np.float32(3), np.float32(3), None),
    ],
)
def test_what_a_function_returns_without_computing_comes_back_as_it_is(fun, value, tangent):
    primal, dot = xlab.jvp(fun, (2.0,), (7.0,))
    assert type(primal) is type(value) and primal == value
    assert tangent is None or (type(dot) is float and dot == tangent)
    assert isinstance(xlab.jvp(lambda x: x + 1, (2.0,), (7.0,))[1], xlab.Array)
    for out, _ in (xlab.vjp(fun, 2.0), xlab.linearize(fun, 2.0)):
        assert type(out) is type(value) and out == value


INDEX = np.arange(4)


@pytest.mark.parametrize(
    "function",
    [
        lambda i, b, s: lax.cond(i % 2 == 0, lambda b, s: (b, s + 1), lambda b, s: (b, s), b, s),
        lambda i, b, s: lax.cond(i % 2 == 0, lambda s: (b, s + 1), lambda s: (b, s), s),
        lambda i, b, s: lax.switch(
            i, [lambda b, s: (b, s + 1), lambda b, s: (b, s), lambda b, s: (b, s * 2)], b, s
        ),
        lambda i, b, s: lax.while_loop(lambda c: c[1] < i, lambda c: (c[0], c[1] + 1), (b, s)),
        lambda i, b, s: lax.fori_loop(0, i, lambda k, c: (c[0], c[1] + k), (b, s)),
    ],
    ids=["cond", "closed", "switch", "while", "fori"],
)
def test_what_is_handed_through_belongs_to_all_examples(function):
    shared, own = np.float32([1, 2]), np.arange(4)
    for wrap in (lambda f: f, xlab.jit):
        b, s = wrap(xlab.vmap(function, in_axes=(0, None, 0), out_axes=(None, 0)))(
            INDEX, shared, own
        )
        assert b.tolist() == [1, 2]
        assert s.tolist() == [int(function(i, shared, x)[1]) for i, x in zip(INDEX, own)]


@pytest.mark.parametrize("weak", ["first", "second"])
def test_the_first_branch_says_whether_a_result_is_weak(weak):
    branches = [lambda: 1.0, lambda: np.float32(1)]
    branches = branches if weak == "first" else branches[::-1]
    assert lax.switch(1, branches).weak_type == (weak == "first")
    assert lax.cond(True, branches[1], branches[0]).weak_type == (weak == "first")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, i: x[i],
        lambda x, i: lax.dynamic_slice(x, (i,), (2,)),
        lambda x, i: x.at[i].set(2.0),
        lambda x, i: lax.dynamic_update_slice(x, jnp.ones(2), (i,)),
        lambda x, i: xlab.grad(lambda x: lax.dynamic_slice(x, (i,), (2,)).sum())(x),
    ],
)
def test_a_batch_of_nothing(function):
    full = xlab.vmap(function)(jnp.ones((2, 3)), jnp.zeros(2, int))
    assert xlab.vmap(function)(jnp.ones((0, 3)), jnp.zeros(0, int)).shape == (0, *full.shape[1:])


def test_the_shape_of_none():
    for name, expected in (("shape", ()), ("ndim", 0), ("size", 1)):
        with pytest.warns(DeprecationWarning, match="None"):
            assert getattr(jnp, name)(None) == expected


class Step(enum.IntEnum):
    FIRST = 0
    LAST = 1


class Half(float, enum.Enum):
    HALF = 0.5


class Count(int):
    pass


@pytest.mark.parametrize(("value", "like"), [(Step.LAST, 1), (Half.HALF, 0.5), (Count(3), 3)])
def test_classes_of_numbers_are_numbers(value, like):
    for make in (
        jnp.array,
        lambda v: jnp.array([v, v]),
        lambda v: jnp.arange(3, dtype="int8") + v,
        lambda v: xlab.jit(lambda x: x + 1)(v),
    ):
        found, expected = make(value), make(like)
        assert (found.dtype, found.weak_type, found.tolist()) == (
            expected.dtype,
            expected.weak_type,
            expected.tolist(),
        )


def test_keys_are_close_where_they_are_equal():
    a, b = xlab.random.split(xlab.random.key(0))
    assert jnp.allclose(a, a) and not jnp.allclose(a, b)
    assert jnp.isclose(jnp.stack([a, b]), a).tolist() == [True, False]
    with pytest.raises(TypePromotionError, match="key<fry>"):
        jnp.allclose(a, 1.0)


@pytest.mark.parametrize("wrap", [lambda f: f, xlab.jit])
def test_the_words_of_a_check_name_a_key(wrap):
    def f(key):
        checkify.check(False, "bad {key}", key=key)
        checkify.check(False, "also {x}", x=1.0)
        return key

    error, _ = checkify.checkify(wrap(f))(xlab.random.key(7))
    assert "bad Array((), dtype=key<fry>)" in error.get() and "7]" in error.get()


def test_check_grads_takes_functions_that_bend():
    x = np.float32(np.random.RandomState(0).randn(4))
    check_grads(lambda x: jnp.exp(jnp.sin(8 * x)).sum(), (x,), 2)
    check_grads(lambda x: x**5 + 3 * x**4, (np.float32(4),), 2)
    with pytest.raises(AssertionError):
        check_grads(lambda x: lax.stop_gradient(x) * x, (np.float32(2),), 1)
    with pytest.raises(AssertionError):
        check_grads(lambda x: jnp.exp(lax.stop_gradient(jnp.sin(8 * x)) + x), (x,), 1)


def test_a_lowered_program_as_the_compilers_computation():
    text = xlab.jit(lambda x: x + 1).lower(1.0).compiler_ir("hlo").as_hlo_text()
    assert text.startswith("HloModule jit__lambda")


def test_equations_say_their_scopes():
    (eqn,) = xlab.make_jaxpr(
        lambda x: xlab.named_scope("outer")(xlab.named_scope("inner")(jnp.sin))(x)
    )(1.0).eqns
    assert str(eqn.source_info.name_stack) == "outer/inner"


@pytest.mark.parametrize(
    "value", ["hi", None, object(), [1.0]], ids=["str", "none", "object", "list"]
)
def test_operands_that_are_no_arrays(value):
    with pytest.raises(TypeError, match=r"sin takes arrays and numbers.*operand 0") as caught:
        lax.sin(value)
    assert "static_argnames" not in str(caught.value)
    with pytest.raises(TypeError, match="operand 1"):
        lax.add(np.float32(1), value)


def test_abs_is_of_signed_numbers():
    with pytest.raises(TypeError, match="signed"):
        lax.abs(np.uint8(1))
    assert jnp.abs(np.uint8(200)) == 200


class TestPlacement:
    def mesh(self, kind=AxisType.Auto):
        return xlab.make_mesh((2, 4), ("x", "y"), axis_types=(kind,) * 2)

    def test_a_constraint_on_an_abstract_mesh(self):
        mesh = self.mesh()
        x = xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("x")))
        wanted = NamedSharding(mesh.abstract_mesh, P("x", "y"))
        assert lax.with_sharding_constraint(x, wanted).sharding == NamedSharding(mesh, P("x", "y"))
        with xlab.set_mesh(mesh):
            assert lax.with_sharding_constraint(
                np.ones((8, 8), np.float32), wanted
            ).sharding == NamedSharding(mesh, P("x", "y"))
        with pytest.raises(TypeError, match="set_mesh"):
            lax.with_sharding_constraint(np.ones((8, 8), np.float32), wanted)

    @pytest.mark.parametrize(
        "spec",
        [P(None), P("x", None), P(None, None), P(("x", "y"), None), P("x"), P(), P(None, "y")],
    )
    def test_results_spell_their_spec_as_the_argument_does(self, spec):
        x = xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(self.mesh(), spec))
        both = xlab.jit(lambda v: v - 2)
        for f in (lambda v: v + 1, xlab.jit(lambda v: v * v), xlab.jit(lambda v: v)):
            assert f(x).sharding.spec == spec
        for other in P("x"), P("x", None), P("x"):  # one program, as each caller spells it
            assert (
                both(
                    xlab.device_put(np.ones((8, 8), np.float32), NamedSharding(self.mesh(), other))
                ).sharding.spec
                == other
            )
        step = xlab.jit(lambda v: v * 2)
        step(step(x))
        assert step._cache_size() == 1
        assert xlab.jit(lambda v: v.sum(1))(x).sharding.spec == P(
            *spec[:1] if spec and spec[0] else ()
        )


@pytest.mark.parametrize("ct", [1, 2.5, np.int32(3), np.zeros((), xlab.dtypes.float0)])
def test_nothing_flows_back_through_integers_whatever_is_given(ct):
    """As programs do that pull the very results back, whichever they are."""
    _, back = xlab.vjp(lambda x: (x * 2, jnp.round(x).astype(int)), 3.0)
    assert float(back((1.0, ct))[0]) == 2.0
    with pytest.raises(ValueError, match="cotangent of type float0"):
        back((1.0, np.ones(2)))


def test_what_a_program_closes_over_does_not_depend_on_where_it_was_made():
    """A library that keeps programs as trees of their constants has one structure for a state that starts as a number and one that is computed."""

    def shapes(c, x):
        closed = xlab.make_jaxpr(lambda y: (y * jnp.float32(2) + c) * table + c)(x)
        np.testing.assert_array_equal(xlab.core.jaxpr_as_fun(closed)(3.0)[0], (c + 6.0) * table + c)
        return [c.shape for c in closed.consts]

    start, table, here = jnp.array(1.0), jnp.arange(3.0), [(), (3,)]
    assert shapes(start, 3.0) == shapes(jnp.array(1.0) + 1, 3.0) == here
    assert [len(xlab.make_jaxpr(lambda: c)().consts) for c in (start, np.float32(1), 1.0)] == [1, 0, 0]  # fmt: skip
    made = []

    @xlab.jit
    def program(x):
        begun = jnp.array(0.5)
        rows = table * x
        consts = lambda c: [c.shape for c in xlab.make_jaxpr(lambda y: y + c * c + rows)(1.0).consts]  # fmt: skip
        made.extend((consts(begun), consts(begun + x), consts(start), consts(0.5)))
        return begun + x

    assert program(1.0) == 1.5 and made == [here, here, here, [(3,)]]


@pytest.mark.parametrize(
    "transform", [lambda f: f, xlab.jit, xlab.vmap, lambda f: xlab.grad(lambda x: f(x).sum())]
)
def test_a_scalar_that_a_program_makes_is_a_literal_of_it(transform):
    f = transform(lambda x: x * jnp.float32(2) + jnp.array(0.5))
    closed = xlab.make_jaxpr(f)(jnp.ones(3))
    assert not closed.consts and "2.0" in str(closed)
    np.testing.assert_array_equal(xlab.core.jaxpr_as_fun(closed)(jnp.ones(3))[0], f(jnp.ones(3)))


def test_rules_are_given_tuples():
    """A library's rule may hand them on as axes of a `vmap` or as arguments, where a list is another structure."""
    prim, linear, kinds = Primitive("two_results"), Primitive("two_sums"), []
    prim.multiple_results = linear.multiple_results = True

    def note(name, *given):
        kinds.append((name, *map(type, given)))

    def jvp(primals, tangents):
        note("jvp", primals, tangents)
        tangents = [ad.instantiate_zeros(t) for t in tangents]
        return prim.bind(*primals), linear.bind(*tangents)

    def batch(operands, dims):
        note("batch", operands, dims)
        return prim.bind(*operands), [0, 0]

    def batch_along(size, name, kind, operands, dims):
        note("batch along", operands, dims)
        return linear.bind(*operands), [0, 0]

    @xlab.custom_jvp
    def custom(x, y):
        return x * y

    @custom.defjvp
    def _custom_jvp(primals, tangents):
        note("custom", primals, tangents)
        return custom(*primals), tangents[0] * primals[1] + primals[0] * tangents[1]

    for one, body in ((prim, lambda x, y: [x * y, x]), (linear, lambda x, y: [x + y, x])):
        one.def_impl(body)
        one.def_abstract_eval(lambda x, y: [x, x])
        mlir.register_lowering(one, mlir.lower_fun(body, multiple_results=True))
    ad.primitive_jvps[prim], batching.primitive_batchers[prim] = jvp, batch
    ad.primitive_transposes[linear] = lambda cts, x, y: [ad.instantiate_zeros(cts[0])] * 2
    batching.axis_primitive_batchers[linear] = batch_along
    f = lambda x: prim.bind(x, x)[0] + custom(x, x)
    for g in (f, xlab.jit(f), lambda x: lax.scan(lambda c, _: (f(c), None), x, None, 1)[0]):
        assert xlab.grad(g)(2.0) == xlab.jit(xlab.grad(g))(2.0) == 6.0  # 2 of prim's, 4 of custom's
        assert xlab.vmap(g)(jnp.ones(3)).tolist() == [2.0] * 3
        assert xlab.vmap(lambda x: xlab.jvp(g, (x,), (x,))[1])(jnp.ones(3)).tolist() == [4.0] * 3
    assert {kind[0] for kind in kinds} == {"jvp", "batch", "batch along", "custom"}
    assert {kind[1:] for kind in kinds} == {(tuple, tuple)}


@pytest.mark.parametrize("cls", [ad.Zero, ad.UndefinedPrimal])
def test_what_stands_for_no_array_is_a_tree_without_leaves(cls):
    made = cls(ShapedArray((2,), np.dtype("float32")))
    leaves, tree = xlab.tree.flatten((made, 1.0))
    assert leaves == [1.0] and xlab.tree.structure((cls(made.aval), 2)) == tree
    back, _ = xlab.tree.unflatten(tree, leaves)
    assert type(back) is cls and back.aval == made.aval
    seen = []
    total = xlab.vmap(lambda xs: (seen.append(type(xs[1])), xs[0] * 2)[1], in_axes=((0, None),))
    assert total((jnp.arange(2.0), made)).tolist() == [0, 2] and seen == [cls]
