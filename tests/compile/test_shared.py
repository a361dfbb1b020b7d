"""Nothing compiles twice: ways to ask for one program again, each with the number of compiles it may cost."""

import functools
import gc
import weakref

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from xlab import events, lax, observe
from xlab.compile import tracing
from xlab.compile.history import ledger
from xlab.sharding import AxisType, NamedSharding
from xlab.sharding import PartitionSpec as P

X = np.arange(64, dtype=np.float32).reshape(8, 8)


def loss(x):
    return (jnp.sin(x) ** 2).sum()


def powers(x, n):
    return x**n


def total(x):
    return lax.psum(x, "x")


class Model:
    def apply(self, x):
        return jnp.tanh(x) * 3


def compiles(run) -> int:
    """How many programs `run()` compiles."""
    xlab.clear_caches()
    ledger.clear()
    run()
    return len(ledger.entries)


@pytest.fixture
def mesh():
    return xlab.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def again(make, *args, times=3):
    """Makes a function anew and calls it, several times."""
    return compiles(lambda: [make()(*args) for _ in range(times)])


MADE_IN_A_LOOP = {
    "jit": lambda m: xlab.jit(loss),
    "jit with options": lambda m: xlab.jit(
        loss, keep_unused=True, name="other", compiler_options={"xla_cpu_enable_fast_math": False}
    ),
    "jit with a static argument": lambda m: functools.partial(
        xlab.jit(powers, static_argnames="n"), n=2
    ),
    "jit with shardings": lambda m: xlab.jit(
        loss, in_shardings=NamedSharding(m, P("x")), out_shardings=NamedSharding(m, P())
    ),
    "jit of jit": lambda m: xlab.jit(xlab.jit(loss)),
    "jit of grad": lambda m: xlab.jit(xlab.grad(loss)),
    "jit of value_and_grad": lambda m: xlab.jit(xlab.value_and_grad(loss)),
    "jit of grad of jit": lambda m: xlab.jit(xlab.grad(xlab.jit(loss))),
    "jit of vmap": lambda m: xlab.jit(xlab.vmap(loss)),
    "jit of vmap of grad": lambda m: xlab.jit(xlab.vmap(xlab.grad(loss), in_axes=(0,), out_axes=1)),
    "jit of jacfwd": lambda m: xlab.jit(xlab.jacfwd(loss)),
    "jit of jacrev": lambda m: xlab.jit(xlab.jacrev(loss)),
    "jit of hessian": lambda m: xlab.jit(xlab.hessian(loss)),
    "jit of grad of checkpoint": lambda m: xlab.jit(
        xlab.grad(xlab.checkpoint(loss, static_argnums=()))
    ),
    "vmap of jit": lambda m: xlab.vmap(xlab.jit(loss)),
    "shard_map": lambda m: xlab.shard_map(total, mesh=m, in_specs=P("x"), out_specs=P()),
    "jit of shard_map": lambda m: xlab.jit(
        xlab.shard_map(total, mesh=m, in_specs=P("x"), out_specs=P(), axis_names={"x", "y"})
    ),
    "a method": lambda m, model=Model(): xlab.jit(model.apply),
}


@pytest.mark.parametrize("what", MADE_IN_A_LOOP)
def test_what_is_made_in_a_loop_compiles_once(mesh, what):
    make, kept = MADE_IN_A_LOOP[what], []

    def one():
        made = make(mesh)
        if what == "a method":  # a new object each time, known while the first one lives
            kept.append(made)
        return made

    assert again(one, X) == 1


@pytest.mark.parametrize(
    "steps",
    [
        lambda f, x: (f.lower(x).compile(), f(x)),
        lambda f, x: (f(x), f.lower(x).compile()),
        lambda f, x: (f.lower(x).cost_analysis(), f(x)),
        lambda f, x: (f.lower(x).compile()(x), f.lower(x).compile()(x)),
        lambda f, x: (f.trace(x).lower().compile().memory_analysis(), f(x), f.lower(x).compile()),
        lambda f, x: (observe.transfers(f, x), f(x)),
        lambda f, x: (f(x), observe.program(f, x)),
        lambda f, x: (f(np.asarray(x)), f(np.asarray(x)), f.lower(np.asarray(x)).compile()),
    ],
    ids=[
        "ahead, then called",
        "called, then ahead",
        "cost, then called",
        "ahead twice",
        "memory",
        "looked at, then called",
        "called, then looked at",
        "from the host",
    ],
)
@pytest.mark.parametrize("sharded", [False, True])
def test_stages_and_views_share_with_calls(mesh, steps, sharded):
    x = xlab.device_put(X, NamedSharding(mesh, P("x"))) if sharded else jnp.asarray(X)
    f = xlab.jit(lambda x: (x @ x).sum(0))
    assert compiles(lambda: steps(f, x)) == 1


def test_lowering_again_is_the_same_module():
    f = xlab.jit(lambda x: x * 2)
    assert f.lower(X)._lowered is f.lower(X)._lowered
    assert f.lower(xlab.ShapeDtypeStruct(X.shape, X.dtype))._lowered is f.lower(X)._lowered


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
@pytest.mark.parametrize(
    "specs",
    [(P(), P(None), P(None, None)), (P("x"), P("x", None), P(("x",), None)), (P(None, "y"),)],
)
@pytest.mark.parametrize(
    "run",
    [xlab.jit(lambda x: x * 5), lambda x: x + 1, jnp.sin, xlab.jit(lambda x: x + x.sum())],
    ids=["jit", "operator", "function", "collectives"],
)
def test_specs_that_place_alike_are_one_program(kind, specs, run):
    mesh = xlab.make_mesh((4, 2), ("x", "y"), axis_types=(kind,) * 2)
    arrays = [xlab.device_put(X, NamedSharding(mesh, s)) for s in specs]
    outs = []
    assert compiles(lambda: outs.extend(run(run(x)) for x in arrays)) == 1
    assert all(
        np.array_equal(o, outs[0]) and o.sharding.is_equivalent_to(outs[0].sharding, 2)
        for o in outs
    )


def test_specs_that_place_alike_stay_on_the_warm_path(mesh, python_calls):
    f, g = xlab.jit(lambda x: x * 5), xlab.jit(lambda x: (x @ x.T).sum(0))
    for spec in P("x"), P("x", None):
        x = xlab.device_put(X, NamedSharding(mesh, spec))
        f(x), g(x)
        assert set(python_calls(f, x)[1]) <= {"__eq__"}  # of two specs
        assert "trace_program" not in (names := python_calls(g, x)[1]) and "repeat" in names


def test_what_differs_compiles_for_itself(mesh):
    other = xlab.make_mesh((4, 2), ("a", "b"), axis_types=(AxisType.Auto,) * 2)
    f = xlab.jit(lambda x: x * 7)
    assert (
        compiles(
            lambda: [
                f(xlab.device_put(X, NamedSharding(m, P(m.axis_names[0])))) for m in (mesh, other)
            ]
        )
        == 2
    )
    for options in [
        {"keep_unused": True},
        {"name": "other"},
        {"donate_argnums": 0},
        {"out_shardings": NamedSharding(mesh, P("x"))},
    ]:
        assert compiles(lambda: (xlab.jit(loss2)(X), xlab.jit(loss2, **options)(X))) == 2
    assert (
        compiles(
            lambda: (xlab.jit(xlab.grad(pair, 0))(2.0, 3.0), xlab.jit(xlab.grad(pair, 1))(2.0, 3.0))
        )
        == 2
    )
    assert float(xlab.jit(xlab.grad(pair, 0))(2.0, 3.0)) == 3.0
    assert float(xlab.jit(xlab.grad(pair, 1))(2.0, 3.0)) == 2.0
    assert float(xlab.jit(xlab.vmap(pair, in_axes=(0, None)))(jnp.ones(2), 4.0)[1]) == 4.0
    assert xlab.jit(xlab.vmap(pair, in_axes=(0, 0)))(jnp.ones(2), jnp.ones(2)).shape == (2,)


def loss2(x):
    return x * 2


def pair(x, y):
    return x * y


def test_a_wrapper_of_a_wrapper_is_itself():
    """`functools.wraps` copies what a transformation noted about its function; the copy does something else."""
    slope = xlab.grad(lambda x: x**3)

    @functools.wraps(slope)
    def twice(x):
        return 2 * slope(x)

    assert (
        float(xlab.jit(slope)(1.0)),
        float(xlab.jit(twice)(1.0)),
        float(xlab.jit(slope)(1.0)),
    ) == (3.0, 6.0, 3.0)
    assert tracing.identity(twice) == (twice, ())


def test_options_without_a_hash_keep_programs_of_their_own():
    assert (
        again(lambda: xlab.jit(loss, compiler_options={"xla_cpu_enable_fast_math": False}), X) == 1
    )
    policy = xlab.checkpoint_policies.everything_saveable
    assert again(lambda: xlab.jit(xlab.grad(xlab.checkpoint(loss, policy=policy))), X) == 1
    assert (
        again(lambda: xlab.jit(xlab.vmap(lambda d: d["a"].sum(), in_axes=({"a": 0},))), {"a": X})
        == 3
    )  # three functions


def test_programs_live_as_long_as_their_function():
    def f(x):
        return x - 4

    (executable,) = [
        xlab.jit(f)(X) is None or xlab.jit(f)._xlab_jit.executables.copy().popitem()[1]
    ]
    watched = weakref.ref(executable)
    del executable
    gc.collect()
    assert watched() is not None
    del f
    gc.collect()
    assert watched() is None


@pytest.mark.parametrize(
    "make",
    [
        lambda f: xlab.jit(f),
        lambda f: xlab.jit(f, donate_argnums=0),
        lambda f: xlab.jit(xlab.vmap(f)),
        lambda f: xlab.pmap(f),
    ],
)
def test_callables_without_a_hash_or_a_weak_reference(make):
    class Unhashable:
        def __eq__(self, other):
            return True

        def __call__(self, x):
            return x * 2

    class Unreferable:
        __slots__ = ()

        def __call__(self, x):
            return x * 2

    for fun in (Unhashable(), Unreferable()):
        f = make(fun)
        assert np.array_equal(f(jnp.ones((2, 3))), np.full((2, 3), 2))
        if hasattr(f, "clear_cache"):
            f.clear_cache()
            assert np.array_equal(f(jnp.ones((2, 3))), np.full((2, 3), 2))


def test_only_what_was_cleared_is_said_to_be():
    def f(x):
        return (x * 7).sum()

    plain = xlab.jit(f)
    plain(X)
    plain.clear_cache()
    ledger.clear()
    xlab.jit(xlab.grad(f))(X)
    plain(X)
    assert ["cleared" in e.reason for e in ledger.entries if e.name == "f"] == [False, True]


def test_clearing_one_clears_all_of_the_function():
    def f(x):
        return x - 6

    one, other = xlab.jit(f), xlab.jit(f)
    one(X)
    other.clear_cache()
    assert not one._xlab_jit.executables
    assert np.array_equal(one(X), X - 6)


def stages(run) -> str:
    """The stages that `run()` goes through: T, L and C."""
    seen = []
    letters = {"trace": "T", "lower": "L", "compile": "C"}

    def note(event):
        seen.append(letters.get(event.kind, ""))

    events.add(note)
    try:
        run()
    finally:
        events.remove(note)
    return "".join(seen)


def test_d10_another_device_is_compiled_for_and_not_traced_or_lowered_again():
    d = xlab.devices()
    x = jnp.arange(8.0)
    f = xlab.jit(lambda a: a * 21)
    given = (x, xlab.device_put(x, d[0]), xlab.device_put(x, d[1]))
    assert [stages(lambda a=a: f(a)) for a in given * 2] == ["TLC", "C", "C", "", "", ""]
    assert [stages(lambda a=a: lax.cosh(a)) for a in given * 2][2:] == ["C", "", "", ""]
    assert f(given[2]).devices() == {d[1]}
    assert stages(lambda: f.lower(given[2]).compile()) == ""


def test_d10_a_mesh_in_another_order_shares_the_module(mesh):
    f = xlab.jit(lambda a: a.sum(0) * 2)
    back = xlab.sharding.Mesh(mesh.devices[::-1], mesh.axis_names)
    a, b = (xlab.device_put(X, NamedSharding(m, P("x"))) for m in (mesh, back))
    assert stages(lambda: f(a)) == "TLC"
    assert stages(lambda: f(b)) == "C"
    np.testing.assert_array_equal(f(a), f(b))
    assert f(b).sharding.mesh == back
    # Another spec, or memory, is another module.
    assert stages(lambda: f(xlab.device_put(X, NamedSharding(mesh, P(None, "y"))))) == "LC"


def test_d22_a_program_that_calls_back_is_lowered_for_each_device():
    f = xlab.jit(lambda a: xlab.pure_callback(np.sin, a, a))
    x = jnp.arange(3.0)
    assert stages(lambda: f(x)) == "TLC"
    assert stages(lambda: f(xlab.device_put(x, xlab.devices()[1]))) == "LC"


def test_d16_the_cost_of_a_lowered_program_is_known_without_a_compile():
    lowered = xlab.jit(lambda a: a @ a).lower(X)
    assert stages(lambda: lowered.cost_analysis()) == ""
    assert lowered.cost_analysis()["flops"] == 2 * 8**3
