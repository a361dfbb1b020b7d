"""Samples of `scipy.optimize`, `interpolate`, `cluster`, `spatial`, and of the estimates of `stats`."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from tests.reference.data import floats
from tests.reference.sample import Sample

LAWS = False        # compared with the reference alone
BFGS, LBFGS = "BFGS", "l-bfgs-experimental-do-not-rely-on-this"


def room(n, name):
    return import_module(f"{n.name}.scipy.{name}")


# -- optimize: where the reference converges the steps are the same; elsewhere see test_optimize.py


def rosenbrock(n, x):
    return n.jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(n, p):
    x, y = p
    return (x**2 + y - 11) ** 2 + (x + y**2 - 7) ** 2


def quartic(n, x, shift=1.0):
    return n.jnp.sum(x**4) - shift * n.jnp.sum(x)


def minimum(fun, method=BFGS, *args, **options):
    return lambda n, x: tuple(room(n, "optimize").minimize(lambda *xs: fun(n, *xs), x, args, method=method, options=options))


def place(fun, method):
    return lambda n, x: room(n, "optimize").minimize(lambda y: fun(n, y), x, method=method).x


# -- interpolate


GRID, VALUES = (np.float32([0, 1, 3]), np.float32([0, 0.5, 2, 3])), floats(3, 4)
POINTS = np.float32([[0.5, 1.2], [1, 0.5], [2.9, 2.9], [0, 3], [3, 0], [4, 1], [1, -1], [1.5, np.nan]])


def between(*options, **named):
    return lambda n, values, at: room(n, "interpolate").RegularGridInterpolator(tuple(map(n.jnp.asarray, GRID)), values, *options, **named)(at)


# -- spatial


QUATS, ONE = floats(3, 4) + 0.1, floats(4) + 0.3


def rotation(fun):
    return lambda n, q, *xs: fun(room(n, "spatial.transform").Rotation.from_quat(q), *xs)


def made(name, *options, **named):
    return lambda n, *xs: getattr(room(n, "spatial.transform").Rotation, name)(*options, *xs, **named).quat


def slerp(n, q, times):
    transform = room(n, "spatial.transform")
    return transform.Slerp.init(n.jnp.float32([0, 1, 3]), transform.Rotation.from_quat(q))(times).quat


# -- stats


def kde(fun, *options, **named):
    return lambda n, data, *xs: fun(room(n, "stats").gaussian_kde(data, *options, **named), *xs)


def drawn(n, data):
    return room(n, "stats").gaussian_kde(data).resample(n.random.key(1), (3,))


def mode(**options):
    return lambda n, x: tuple(room(n, "stats").mode(x, **options))


DATA, AT = floats(2, 7), floats(2, 3)
SAMPLES = [
    *(Sample(f"bfgs_{name}", minimum(fun), [x], ("eager",), tol=1e-5, x64=True) for name, fun, x in [
        ("himmelblau", himmelblau, np.ones(2)), ("rosenbrock", rosenbrock, np.zeros(5)), ("zero", lambda n, x: (x**2).sum(), np.zeros(2)),
        ("downhill", lambda n, x: x.sum(), np.ones(2))]),
    Sample("bfgs_batch", place(himmelblau, BFGS), [np.ones(2)], ("vmap", "jit"), x64=True, tol=1e-5),
    Sample("bfgs_short", lambda n, x: room(n, "optimize").minimize(lambda y: himmelblau(n, y), x, method="bfgs", options={"maxiter": 3, "norm": 2}),
           [np.ones(2)], ("eager",), x64=True, tol=1e-5),
    Sample("bfgs_of_args", minimum(quartic, BFGS, 2.0), [np.float64([2, 3])], ("eager",), tol=1e-4, x64=True),
    Sample("lbfgs", place(himmelblau, LBFGS), [np.ones(2)], ("eager",), x64=True, tol=1e-5),
    Sample("lbfgs_of_single", place(himmelblau, LBFGS), [np.ones(2, np.float32)], ("jit",), tol=1e-3),
    Sample("unknown_method", minimum(quartic, "powell"), [np.ones(2, np.float32)], error="ValueError"),
    Sample("unknown_option", minimum(quartic, BFGS, steps=3), [np.ones(2, np.float32)], error="TypeError"),
    Sample("args_of_a_list", lambda n, x: room(n, "optimize").minimize(lambda y, a: quartic(n, y, a), x, [1.0], method=BFGS), [np.ones(2, np.float32)], error="TypeError"),
    Sample("start_of_ints", minimum(quartic), [np.ones(2, np.int32)], error="TypeError"),
    *(Sample(f"grid_{name}", between(*options, **named), [VALUES, POINTS[:7] if name == "nearest" else POINTS], ("eager",)) for name, options, named in [
        ("linear", (), {}), ("nearest", ("nearest",), {}), ("beyond", (), {"fill_value": None}), ("filled", (), {"fill_value": 2.0})]),
    Sample("grid_slopes", between(), [VALUES, POINTS[:1]], ("grad", "jvp", "vmap", "jit")),
    Sample("grid_of_vectors", between(), [floats(3, 4, 2), POINTS[:4].reshape(2, 2, 2)], ("eager",)),
    Sample("grid_of_ints", between(), [np.arange(12).reshape(3, 4), POINTS[:2]], ("eager",)), Sample("grid_one", between(), [VALUES, POINTS[0]], ("eager",)),
    Sample("grid_of_tuple", lambda n, v, x, y: between()(n, v, (x, y)), [VALUES, np.float32([0.5, 1]), np.float32([1, 2])], ("eager",)),
    Sample("grid_of_numbers", lambda n, v, x, y: between()(n, v, (x, y)), [VALUES, np.float32(0.5), np.float32(1.2)], ("eager", "jit", "vmap")),
    Sample("grid_unknown", between("cubic"), [VALUES, POINTS], error="ValueError"), Sample("grid_strict", between(bounds_error=True), [VALUES, POINTS], error="NotImplementedError"),
    Sample("grid_of_rank", between(), [VALUES[0], POINTS], error="ValueError"), Sample("grid_of_points", between(), [VALUES, POINTS[:, :1]], error="ValueError"),
    Sample("grid_of_fill", between(fill_value=1j), [VALUES, POINTS], error="ValueError"),
    Sample("vq", lambda n, x, y: room(n, "cluster.vq").vq(x, y), [floats(5, 2), floats(3, 2)], ("eager", "jit")),
    Sample("vq_of_numbers", lambda n, x, y: room(n, "cluster.vq").vq(x, y), [np.arange(5), np.arange(2)], ("eager",)),
    *(Sample(f"vq_wrong_{i}", lambda n, x, y: room(n, "cluster.vq").vq(x, y), [x, y], error=error) for i, (x, y, error) in enumerate([
        (floats(3), floats(3, 2), "ValueError"), (floats(2, 2, 2), floats(2, 2, 2), "ValueError"), (floats(3, 2), floats(3, 3), "TypeError")])),
    Sample("rotations", rotation(lambda r: (r.as_matrix(), r.as_rotvec(), r.as_mrp(), r.as_quat(True), r.as_quat(scalar_first=True), r.magnitude(), r.inv().quat,
                                            r.mean().as_matrix(), (r * r).quat, r[1:].quat, r.as_rotvec(degrees=True))), [QUATS], ("eager",), tol=1e-4),
    Sample("rotation", rotation(lambda r: (r.as_matrix(), r.as_rotvec(), r.magnitude(), (r * r).quat)), [ONE], ("grad", "vmap", "jit"), tol=1e-3),
    *(Sample(f"as_euler_{seq}", rotation(lambda r, seq=seq: (r.as_euler(seq), r.as_euler(seq, degrees=True))), [QUATS], ("eager",), tol=1e-3) for seq in ("xyz", "XYZ", "zxz", "ZYZ")),
    *(Sample(f"from_euler_{seq}", made("from_euler", seq), [np.float32([0.3, -1.2, 2.1])[:len(seq)]], ("eager",), tol=1e-4) for seq in ("x", "XZ", "xyz", "ZYX", "zxz")),
    Sample("from_euler_degrees", made("from_euler", "xyz", degrees=True), [np.float32([[10, 20, 30], [40, 50, 60]])], ("eager",), tol=1e-4),
    Sample("rotation_apply", rotation(lambda r, v: (r.apply(v), r.apply(v, inverse=True))), [QUATS, floats(3, 3)], ("eager", "grad"), tol=1e-3),
    Sample("rotation_weighted", rotation(lambda r, w: r.mean(w).as_matrix()), [QUATS, np.float32([1, 2, 3])], ("eager",), tol=1e-3),
    Sample("from_matrix", lambda n, q: made("from_matrix")(n, room(n, "spatial.transform").Rotation.from_quat(q).as_matrix()), [QUATS], ("eager",), tol=1e-4),
    *(Sample(name, made(name), [floats(2, 3) + 0.2], ("eager", "grad"), tol=1e-3) for name in ("from_rotvec", "from_mrp")),
    Sample("slerp", slerp, [QUATS, np.float32([0, 0.5, 2])], ("eager", "jit"), tol=1e-4), Sample("slerp_at_one", slerp, [QUATS, np.float32(1.3)], ("eager",), tol=1e-4),
    *(Sample(f"from_euler_wrong_{i}", made("from_euler", seq), [floats(max(len(seq), 1))], error="ValueError") for i, seq in enumerate(["xYz", "abc", "xyzx", "xxy", ""])),
    *(Sample(f"as_euler_wrong_{i}", rotation(lambda r, seq=seq: r.as_euler(seq)), [ONE], error="ValueError") for i, seq in enumerate(["xy", "xYz", "xxy"])),
    Sample("slerp_of_one", slerp, [QUATS[:1], np.float32(0)], error="ValueError"), Sample("slerp_of_matrix", slerp, [QUATS, np.ones((2, 2), np.float32)], error="ValueError"),
    Sample("single_has_no_len", rotation(len), [ONE], error="TypeError"), Sample("single_has_no_parts", rotation(lambda r: r[0]), [ONE], error="TypeError"),
    Sample("kde", kde(lambda k, x: (k(x), k.pdf(x), k.logpdf(x), k.integrate_kde(k), k.neff, k.covariance, k.inv_cov, k.weights)), [DATA, AT], ("eager",), tol=1e-3),
    Sample("kde_slopes", kde(lambda k, x: k.logpdf(x)), [DATA, AT], ("grad", "jit"), tol=1e-3), Sample("kde_of_point", kde(lambda k, x: k(x)), [DATA, AT[:, 0]], ("eager",), tol=1e-3),
    Sample("kde_gaussian", kde(lambda k, m, c: k.integrate_gaussian(m, c)), [DATA, floats(2), np.eye(2, dtype=np.float32)], ("eager",), tol=1e-3),
    Sample("kde_of_line", kde(lambda k, x: (k(x), k.integrate_box_1d(-0.5, 1.0), k.integrate_gaussian(0.1, 1.0))), [DATA[0], AT[0]], ("eager",), tol=1e-3),
    Sample("kde_draws", drawn, [DATA], ("eager",), tol=1e-3),
    *(Sample(f"kde_width_{i}", kde(lambda k: k.covariance, width), [DATA], ("eager",), tol=1e-3) for i, width in enumerate(["silverman", "scott", 0.3, lambda k: k.n * 0.1])),
    Sample("kde_weighted", lambda n, d, w: (lambda k: (k.weights, k.neff, k(d[:, :2])))(room(n, "stats").gaussian_kde(d, weights=w)), [DATA, np.arange(1, 8, dtype=np.float32)], ("eager",), tol=1e-3),
    *(Sample(f"kde_wrong_{i}", kde(fun, *options), [data], error=error) for i, (fun, options, data, error) in enumerate([
        (lambda k: k, ("middle",), DATA, "ValueError"), (lambda k: k, ([1],), DATA, "ValueError"), (lambda k: k, (None, np.ones(3)), DATA, "ValueError"),
        (lambda k: k, (), np.ones(1, np.float32), "ValueError"), (lambda k: k, (), DATA + 1j, "NotImplementedError"), (lambda k: k(AT[:1]), (), DATA, "ValueError"),
        (lambda k: k.integrate_box_1d(0, 1), (), DATA, "ValueError"), (lambda k: k.integrate_box(0, 1), (), DATA, "NotImplementedError"),
        (lambda k: k.set_bandwidth(1), (), DATA, "NotImplementedError"), (lambda k: k.integrate_gaussian(np.zeros(3), np.eye(2)), (), DATA, "ValueError"),
        (lambda k: k.integrate_gaussian(np.zeros(2), np.eye(3)), (), DATA, "ValueError")])),
    *(Sample(f"mode_{i}", mode(**options), [x], ("eager",)) for i, (x, options) in enumerate([
        (np.int32([[1, 2, 2], [3, 3, 1]]), {}), (np.int32([[1, 2, 2], [3, 3, 1]]), {"axis": 1, "keepdims": True}), (np.float32([[1, 2], [2, 3]]), {"axis": None}),
        (np.float32([np.nan, 1, 1, np.nan, np.nan]), {}), (np.float32([]), {}), (np.array([True, False, True]), {}), (np.float32([[1, 2], [2, 3]]), {"axis": None, "keepdims": True}),
        (np.zeros((3, 0), np.float32), {"axis": 1}), (np.zeros((0, 3), np.float32), {"axis": 1})])),
    Sample("mode_compiled", mode(axis=1), [np.int32([[1, 2, 2], [3, 3, 1]])], ("jit", "vmap")),
    Sample("mode_omit", mode(nan_policy="omit"), [floats(3)], error="NotImplementedError"), Sample("mode_policy", mode(nan_policy="x"), [floats(3)], error="ValueError"),
    Sample("poisson_entropy", lambda n, m: room(n, "stats.poisson").entropy(m), [np.float32([0, 0.5, 3, 12, 39, 41, 300, -1, np.nan])], ("eager",), tol=1e-4),
    Sample("poisson_entropy_slopes", lambda n, m: room(n, "stats.poisson").entropy(m, 1.0), [np.float32([0.5, 3])], ("grad", "vmap"), tol=1e-3),
]
