"""Exported programs with symbolic shapes: what they compute, the types they have, what calls of them check."""

from __future__ import annotations

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.transforms import symbolic_cases as samples
from xlab import export, lax
from xlab.core.dim_values import evaluate, evaluate_shape
from xlab.errors import InconclusiveDimensionOperation

F = np.float32
S = xlab.ShapeDtypeStruct


def specified(specs, scope):
    """The types that texts of the table stand for."""
    out = []
    for spec in specs:
        text, _, dtype = spec.partition(":")
        out.append(S(export.symbolic_shape(text, scope=scope), np.dtype(dtype or "float32")))
    return out


def values(types, env, rng):
    """Arrays of these types for values of the variables; integers are valid positions everywhere."""
    for t in types:
        shape = evaluate_shape(t.shape, env)
        yield (
            rng.normal(size=shape).astype(F)
            if t.dtype == F
            else rng.integers(0, 2, shape).astype(np.int32)
        )


def close(got, want, name=""):
    got, want = xlab.tree.leaves(got), xlab.tree.leaves(want)
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g.shape, g.dtype) == (w.shape, w.dtype), name
        np.testing.assert_allclose(g, w, rtol=2e-4, atol=2e-4, err_msg=name)


# Large programs: their compiles take most of the time.
LARGE = ("order", "derivatives", "linalg", "random")


@pytest.mark.parametrize(
    "family",
    [pytest.param(f, marks=[pytest.mark.slow] if f in LARGE else []) for f in samples.FAMILIES],
)
def test_values_are_those_of_the_function(family):
    rows = samples.FAMILIES[family]
    scope = export.SymbolicScope(samples.CONSTRAINTS)
    types = [specified(specs, scope) for _, _, specs in rows]

    def all_of_them(args):
        return [f(*xs) for (_, f, _), xs in zip(rows, args)]

    exported = export.export(xlab.jit(all_of_them))(types)
    plain = xlab.jit(all_of_them)
    # One choice of values for most: each is two compiles of a large program.
    for env in samples.SIZES if family in ("shapes", "control") else samples.SIZES[:1]:
        rng = np.random.default_rng(0)
        args = [list(values(ts, env, rng)) for ts in types]
        want = plain(args)
        for (name, _, _), g, w in zip(rows, exported.call(args), want):
            close(g, w, name)
        # What was said of the types holds.
        symbolic = xlab.tree.leaves(xlab.tree.unflatten(exported.out_tree, exported.out_avals))
        for aval, w in zip(symbolic, xlab.tree.leaves(want)):
            assert evaluate_shape(aval.shape, env) == w.shape and aval.dtype == w.dtype


# Types of results, as the reference says them.
TYPES = {
    "reshape-1": "float32[a*b]", "concat": "float32[2*a + 1,b]", "append": "float32[b + a]", "arange2": "int32[a]", "padsym": "float32[b + a,b + a]",
    "slice": "float32[a - 1,b] float32[a - 1,b] float32[floordiv(a + 1, 2),b] float32[1,b] float32[b] float32[b] float32[max(0, a - 2),b]",
    "diagonal": "float32[a]", "slice5b": "float32[min(a, 5)]", "slicemany": "float32[- min(a, 5) + a]", "sliceneg": "float32[- max(0, a - 2) + a,b]",
    "convstride": "float32[a,2,- floordiv(- b - 4, 2),- floordiv(- b - 5, 2)]", "matmul": "float32[a,3]", "outer": "float32[a,b]",
    "windows": "float32[floordiv(a, 2),2]", "rev_pad": "float32[a - 1]", "diff": "float32[a - 1]", "kron": "float32[a*b]",
    "tile": "float32[2*a,3*b]", "cumsum": "float32[a,b] float32[a,b]", "convvalid": "float32[a,2,b + 2,b + 3]",
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_types_are_those_of_the_reference(name):
    ((f, specs),) = [(f, s) for rows in samples.FAMILIES.values() for n, f, s in rows if n == name]
    out = xlab.eval_shape(f, *specified(specs, export.SymbolicScope()))
    said = [f"{t.dtype}[{','.join(map(str, t.shape))}]" for t in xlab.tree.leaves(out)]
    assert " ".join(said) == TYPES[name]


def one(shape="2*a, b", **constraints):
    """A program of one argument of a shape."""
    return export.export(xlab.jit(lambda x: (x.reshape(-1) * x.shape[0] + 1).sum()))(
        S(export.symbolic_shape(shape, **constraints), F)
    )


def test_programs_as_text():
    a, b = export.symbolic_shape("a, b")

    def f(x):
        return xlab.jit(lambda y: y.reshape(-1) * y.shape[0])(x[1:])

    text = str(xlab.make_jaxpr(f)(S((2 * a, b), F)))
    for part in (
        "a:f32[2*a,b]",
        "f32[2*a - 1,b]",
        "f32[2*a*b - b]",
        "dim_as_value[dim=2*a - 1]",
        "new_sizes=(2*a*b - b,)",
    ):
        assert part in text
    lowered = export.export(xlab.jit(f))(S((2 * a, b), F)).mlir_module()
    for part in (
        "tensor<?x?xf32>",
        "get_dimension_size",
        "dynamic_reshape",
        "real_dynamic_slice",
        "@shape_assertion",
        "Division had remainder",
    ):
        assert part in lowered
    assert "\u27e8" not in lowered
    assert str(xlab.eval_shape(f, S((2 * a, b), F)).shape) == "(2*a*b - b,)"


X = np.arange(8, dtype=F).reshape(4, 2)


def test_calls():
    e = one()
    for program in (e, export.deserialize(e.serialize(vjp_order=2))):
        assert str(program.in_avals) == "(ShapedArray(float32[2*a,b]),)"
        for x in (X, X[:2, :1]):
            want, n = (x * len(x) + 1).sum(), np.full_like(x, len(x))
            assert program.call(x) == xlab.jit(program.call)(x) == want
            np.testing.assert_array_equal(xlab.grad(program.call)(x), n)
            np.testing.assert_array_equal(
                xlab.jit(xlab.grad(lambda x: program.call(x) ** 2 / 2))(x), n * want
            )
        second = xlab.grad(lambda x: (xlab.grad(lambda x: program.call(x) ** 2)(x)).sum())(X)
        np.testing.assert_allclose(second, 2 * 4 * 4 * 8 * np.ones_like(X))


def test_exports_within_exports():
    inner = export.export(xlab.jit(lambda x, y: jnp.concatenate([x, x]) + y.sum()))(
        *(S(s, F) for s in (export.symbolic_shape("n"), (3,)))
    )
    m, k = export.symbolic_shape("m, k")

    def outer(x):
        twice = inner.call(x[:, 0], np.ones(3, F))
        fixed = inner.call(np.ones(2, F), x[0, :3])
        return inner.call(twice, np.ones(3, F)), fixed, jnp.asarray(twice.shape[0])

    e = export.export(xlab.jit(outer))(S((m + 1, k + 2), F))
    assert [str(a.shape) for a in e.out_avals] == ["(4*m + 4,)", "(4,)", "()"]
    for x in (X[:, :1] * np.ones((4, 3), F), np.ones((2, 5), F)):
        close(export.deserialize(e.serialize()).call(x), outer(x))
    # With numbers alone around it, the inner program is compiled for them.
    assert "?" not in xlab.jit(inner.call).lower(np.ones(2, F), np.ones(3, F)).as_text()


@pytest.mark.parametrize(
    ("shape", "constraints", "given", "why"),
    [
        ("2*a, b", (), (3, 2), "Division had remainder 1 when computing the value of 'a'.*args\\[0\\].shape = \\(2\\*a, b\\)"),
        ("2*a, b", (), (0, 2), "Expected value >= 1 for dimension variable 'a', but found 0"),
        ("2*a, b", (), (4,), "Rank mismatch for args\\[0\\]: expected \\(2\\*a, b\\) and called with \\(4,\\)"),
        ("a, 3", (), (4, 2), "Shape mismatch for argument 0"),
        ("a, a", (), (4, 2), "inconsistency between dimension size args\\[0\\].shape\\[1\\] \\(= 2\\) and the specification 'a' \\(= 4\\)"),
        ("a, b", ("a >= 3",), (2, 2), "constraint a >= 3. Expected 'a - 3' to be greater or equal to 0, but found -1.*'a' = 2"),
        ("a, b", ("b <= 2*a",), (3, 8), "constraint b <= 2\\*a"),
        ("a, b", ("mod(b, 2) == 0",), (3, 3), "constraint mod\\(b, 2\\) == 0.*to be equal to 0, but found 1"),
    ],
)  # fmt: skip
def test_what_calls_check(shape, constraints, given, why):
    e = one(shape, constraints=constraints)
    for call in (e.call, xlab.jit(e.call), lambda x: xlab.eval_shape(e.call, x)):
        with pytest.raises(ValueError, match=why):
            call(np.zeros(given, F))


def test_the_program_itself_checks_too():
    from xlab.backend import ir

    e = one("a, b", constraints=["mod(b, 2) == 0", "a >= 2"])
    text = e.mlir_module().replace("public @main", "private @checked")

    def called_with(*shape):
        kind = "x".join(map(str, shape))
        return text.rstrip().removesuffix("}") + (
            f"func.func public @main(%x: tensor<{kind}xf32>) -> tensor<f32> {{ %y = stablehlo.convert %x : "
            f"(tensor<{kind}xf32>) -> tensor<?x?xf32> %z = func.call @checked(%y) : (tensor<?x?xf32>) -> tensor<f32> "
            f"return %z : tensor<f32> }} }}"
        )

    assert "?" not in ir.print_module(ir.refine_shapes(called_with(3, 4)))
    for shape, why in (
        ((3, 3), "constraint mod.b, 2. == 0.*found 1"),
        ((1, 4), "constraint a >= 2.*found -1"),
    ):
        with pytest.raises(ValueError, match=why):
            ir.refine_shapes(called_with(*shape))


def test_what_export_refuses():
    with pytest.raises(
        ValueError,
        match="Cannot solve for values of dimension variables {'a', 'b'}.*only solve linear",
    ):
        one("a*b")
    (a,), (b,) = export.symbolic_shape("a"), export.symbolic_shape("b")
    with pytest.raises(ValueError, match="Invalid mixing of symbolic scopes"):
        export.export(xlab.jit(lambda x, y: (x, y)))(S((a,), F), S((b,), F))
    for f, why in [
        (lambda x: [x[i] for i in range(x.shape[0])], "requires a constant"),
        (lambda x: x if x.shape[0] > 3 else -x, "'a' > '3' is inconclusive"),
        (lambda x: x.reshape(2, -1), "Cannot divide evenly the sizes"),
    ]:
        with pytest.raises(InconclusiveDimensionOperation, match=why):
            xlab.eval_shape(f, S((a,), F))
    (d,) = export.symbolic_shape("d", scope=a.scope)
    with pytest.raises(TypeError, match="ncompatible shapes"):
        xlab.eval_shape(lambda x, y: x + y, S((a,), F), S((d,), F))
    with pytest.raises(NotImplementedError, match="fft needs a as a constant"):
        export.export(xlab.jit(jnp.fft.fft))(S((a,), F))
    with pytest.raises(InconclusiveDimensionOperation, match="outside of a program that is traced"):
        jnp.asarray(a)


def test_arguments_that_only_give_sizes_are_kept():
    a, b = export.symbolic_shape("a, b")
    e = export.export(xlab.jit(lambda x, y: jnp.ones(x.shape)))(S((a,), F), S((b, a), F))
    assert e.module_kept_var_idx == (0, 1)
    close(e.call(np.zeros(3, F), np.zeros((2, 3), F)), np.ones(3, F))
    with pytest.raises(
        ValueError, match="inconsistency between dimension size args\\[1\\].shape\\[1\\]"
    ):
        e.call(np.zeros(3, F), np.zeros((2, 2), F))


def test_specifications_of_arguments():
    args = {"x": np.ones((2, 3), F), "y": (np.ones(2, np.int32), 1.0)}
    for specs, shapes in [
        ("a, ...", None), (None, [(2, 3), (2,), ()]), ({"x": "a, b", "y": None}, ["(a, b)", "(2,)", "()"]),
        ({"x": "a, _", "y": ("a", "")}, ["(a, 3)", "(a,)", "()"]),
    ]:  # fmt: skip
        if shapes is None:
            with pytest.raises(ValueError, match="specification of an argument of shape \\(\\)"):
                export.symbolic_args_specs(args, specs)
            continue
        given = export.symbolic_args_specs(args, specs, constraints=["a >= 2"])
        assert [str(t.shape) for t in xlab.tree.leaves(given)] == list(map(str, shapes))
        assert xlab.tree.structure(given) == xlab.tree.structure(args)
    with pytest.raises(ValueError, match="prefix of the arguments"):
        export.symbolic_args_specs(args, {"z": "a"})
    with pytest.raises(ValueError, match="either `scope` or `constraints`"):
        export.symbolic_args_specs(args, None, constraints=["a >= 2"], scope=export.SymbolicScope())


def test_trees_and_platforms():
    b, n = export.symbolic_shape("b, n")

    def f(p, *, scale):
        return {
            "out": lax.platform_dependent(p["w"] @ p["x"], cpu=lambda v: v * scale, tpu=lambda v: v)
        }

    e = export.export(xlab.jit(f), platforms=("tpu", "cpu"))(
        {"w": S((b, n), F), "x": S((n,), F)}, scale=S((), F)
    )
    p = {"w": X, "x": np.ones(2, F)}
    close(export.deserialize(e.serialize()).call(p, scale=F(3)), f(p, scale=F(3)))
    with pytest.raises(ValueError, match="args\\[0\\]\\['x'\\].shape\\[0\\]"):
        e.call({"w": X, "x": np.ones(3, F)}, scale=F(3))


@pytest.mark.skipif(len(xlab.devices()) < 4, reason="needs 4 devices")
def test_several_devices():
    mesh = xlab.make_mesh((4,), ("x",), axis_types=(xlab.sharding.AxisType.Auto,))
    where = xlab.NamedSharding(mesh, xlab.P("x"))
    (a,) = export.symbolic_shape("a")

    def f(x):
        return x * x.shape[0] + x.sum(), x[1:]

    e = export.export(xlab.jit(f, in_shardings=where))(S((4 * a, 2), F))
    x = xlab.device_put(np.arange(16, dtype=F).reshape(8, 2), where)
    for program in (e, export.deserialize(e.serialize())):
        assert program.nr_devices == 4
        out = program.call(x)
        close(out, f(np.asarray(x)))
    close(xlab.grad(lambda x: e.call(x)[0].sum())(x), np.full((8, 2), 24.0, F))


@pytest.mark.skipif(len(xlab.devices()) < 4, reason="needs 4 devices")
@pytest.mark.parametrize("kind", ["Auto", "Explicit"])
def test_types_with_shardings(kind):
    mesh = xlab.make_mesh((4,), ("x",), axis_types=(getattr(xlab.sharding.AxisType, kind),))
    where = xlab.NamedSharding(mesh, xlab.P("x"))
    (a,) = export.symbolic_shape("a")
    x = xlab.device_put(np.arange(16, dtype=F).reshape(8, 2), where)
    mapped = xlab.shard_map(
        lambda v: lax.psum(v, "x") + v, mesh=mesh, in_specs=xlab.P("x"), out_specs=xlab.P("x")
    )
    e = export.export(xlab.jit(lambda x: (x * 2 + x.sum(), mapped(x))))(
        S((4 * a, 2), F, sharding=where)
    )
    said = "float32[4*a@x,2]" if kind == "Explicit" else "float32[4*a,2]"
    assert [str(aval) for aval in e.out_avals] == [said] * 2
    for program in (e, export.deserialize(e.serialize())):
        for got, want in zip(program.call(x), (x * 2 + x.sum(), mapped(x))):
            np.testing.assert_allclose(got, want)
            assert got.sharding.is_equivalent_to(where, 2)


def test_random_keys_and_large_constants():
    (a,) = export.symbolic_shape("a")
    big = np.arange(300, dtype=F)
    f = lambda x: (x[:, None] * big, xlab.random.uniform(xlab.random.key(3), (x.shape[0],)))
    e = export.export(xlab.jit(f))(S((a,), F))
    assert len(e.constants) == 1
    close(export.deserialize(e.serialize()).call(np.ones(3, F)), f(np.ones(3, F)))


def test_values_of_dimensions_outside_of_shapes():
    (a,) = export.symbolic_shape("a")
    out = xlab.eval_shape(
        lambda x: (
            x.shape[0] / 2,
            x.shape[0] + 1.5,
            np.arange(3) * x.shape[0],
            x.shape[0] ** 0.5,
            2 ** x.shape[0],
        ),
        S((a,), F),
    )
    assert [str(t.dtype) for t in out] == ["float32", "float32", "int32", "float32", "int32"]
    assert evaluate(a // 2, {"a": 5}) == 2


def test_strided_slices_that_turn_out_empty():
    (n,) = export.symbolic_shape("n")
    steps = (slice(1, None, 3), slice(2, None, 2), slice(None, 1, -2), slice(-1, None, -2))

    def all_of_them(x):
        return [(x[s], xlab.grad(lambda x, s=s: (x[s] ** 2).sum())(x)) for s in steps]

    e = export.export(xlab.jit(all_of_them))(S((n,), F))
    for size in (1, 2, 5):
        x = np.arange(1, size + 1, dtype=F)
        for s, (part, gradient) in zip(steps, e.call(x)):
            np.testing.assert_array_equal(part, x[s])
            want = np.zeros_like(x)
            want[s] = 2 * x[s]
            np.testing.assert_array_equal(gradient, want)


def test_rolls_by_a_part_of_a_size():
    (n,) = export.symbolic_shape("n")

    def rolled(x):
        n = x.shape[0]
        return jnp.roll(x, n // 2), jnp.roll(x[None] * 2, (1, -n), (0, 1))

    e = export.export(xlab.jit(rolled))(S((n,), F))
    for size in (1, 5):
        x = np.arange(size, dtype=F)
        for got, want in zip(e.call(x), (np.roll(x, size // 2), 2 * x[None])):
            np.testing.assert_array_equal(got, want)


# -- sizes of zero -------------------------------------------------------------------------------------------


def test_loops_and_running_sums_over_what_may_be_empty():
    def f(x):
        rest = x[1:]
        return {
            "sum": (jnp.cumsum(rest), lax.cummax(rest, reverse=True), lax.cumlogsumexp(rest)),
            "scan": lax.scan(lambda c, v: (c + v, c * v), 2.0, rest),
            "back": lax.scan(lambda c, v: (c * v, c), 2.0, rest, reverse=True, unroll=2),
            "tree": lax.scan(lambda c, v: (c, None), {"i": 1}, {"v": rest, "w": x[:-1]}),
            "grad": xlab.grad(lambda x: lax.scan(lambda c, v: (c * v, c), 1.0, x[1:])[1].sum())(x),
            "batch": xlab.vmap(lambda r: jnp.cumsum(r[1:]))(jnp.stack([x, 2 * x])),
            "keys": lax.scan(
                lambda k, v: (xlab.random.fold_in(k, 1), xlab.random.uniform(k) * v),
                xlab.random.key(0),
                rest,
            )[1],
        }

    exported = export.export(xlab.jit(f))(S(export.symbolic_shape("n"), F))
    for n in (1, 2, 4):
        x = np.arange(1, n + 1, dtype=F)
        close(exported.call(x), xlab.jit(f)(x), f"n={n}")


def test_a_size_that_an_operation_cannot_have_is_an_error_with_its_place():
    exported = export.export(xlab.jit(lambda x: jnp.take(x[1:], 0, mode="clip")))(
        S(export.symbolic_shape("n"), F)
    )
    assert exported.call(np.ones(2, F)) == 1
    with pytest.raises(
        ValueError,
        match=r"<lambda> was exported for sizes .* \(1,\) for f32\[n\]: at \S*test_symbolic_shapes.py:\d+:\d+, "
        r"has slice size 1 greater than dimension size 0 .*constraints=\['n >= 2'\]",
    ):
        exported.call(np.ones(1, F))
    checked = export.export(xlab.jit(lambda x: jnp.take(x[1:], 0, mode="clip")))(
        S(export.symbolic_shape("n", constraints=["n >= 2"]), F)
    )
    with pytest.raises(ValueError, match="n >= 2"):
        checked.call(np.ones(1, F))
