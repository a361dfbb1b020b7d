"""optimistix: roots, least squares, minima and fixed points, by each solver, with derivatives through them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import optax
import optimistix as optx

tight = {"rtol": 1e-5, "atol": 1e-6}


def curves(y, args):  # a circle and an ellipse that cross
    return jnp.array([y[0] ** 2 + y[1] ** 2 - args, (y[0] / 2) ** 2 + 3 * y[1] ** 2 - 1])


def valley(y, args):  # Rosenbrock's, as residuals
    return jnp.array([args * (y[1] - y[0] ** 2), 1 - y[0]])


def bowl(y, args):
    return jnp.sum((y["a"] - args) ** 2) + (y["b"] - 1) ** 4 + jnp.sum(y["a"]) * y["b"] * 0.1


told = {}
for name, solver in {
    "newton": optx.Newton(**tight),
    "chord": optx.Chord(**tight),
    "dogleg": optx.Dogleg(**tight),
    "levenberg": optx.LevenbergMarquardt(**tight),
}.items():
    root = lambda args: optx.root_find(curves, solver, jnp.array([1.0, 0.4]), args, max_steps=64, throw=False)  # fmt: skip
    found = eqx.filter_jit(root)(1.4)
    told[name] = [found.value.tolist(), bool(found.result == optx.RESULTS.successful)]
    told[name].append(jax.grad(lambda args: jnp.sum(root(args).value))(1.4).tolist())
told["bisection"] = float(optx.root_find(lambda y, args: jnp.cos(y) - args * y, optx.Bisection(**tight), jnp.array(0.5), 1.0, options={"lower": 0.0, "upper": 2.0}).value)  # fmt: skip

for name, solver in {
    "gauss_newton": optx.GaussNewton(**tight),
    "levenberg_squares": optx.LevenbergMarquardt(**tight),
    "indirect": optx.IndirectLevenbergMarquardt(**tight),
    "dogleg_squares": optx.Dogleg(**tight, linear_solver=lx.QR()),
    "bfgs_squares": optx.BFGS(**tight),
}.items():
    fitted = lambda args: optx.least_squares(valley, solver, jnp.array([-1.2, 1.0]), args, max_steps=400, throw=False)  # fmt: skip
    found = eqx.filter_jit(fitted)(3.0)
    told[name] = [jnp.round(found.value, 2).tolist(), bool(found.result == optx.RESULTS.successful)]

start = {"a": jnp.zeros(3), "b": jnp.array(0.2)}
for name, solver in {
    "bfgs": optx.BFGS(**tight),
    "lbfgs": optx.LBFGS(**tight),
    "dfp": optx.DFP(**tight),
    "nelder_mead": optx.NelderMead(1e-4, 1e-4),
    "nonlinear_cg": optx.NonlinearCG(**tight),
    "gradient": optx.GradientDescent(0.1, **tight),
    "optax": optx.OptaxMinimiser(optax.sgd(0.1), **tight),
    "best": optx.BestSoFarMinimiser(optx.BFGS(**tight)),
}.items():
    least = lambda args: optx.minimise(bowl, solver, start, args, max_steps=2000, throw=False)
    found = eqx.filter_jit(least)(0.3)
    told[name] = [jax.tree.map(lambda x: jnp.round(x, 2).tolist(), found.value), bool(found.result == optx.RESULTS.successful)]  # fmt: skip
    slope = jax.grad(lambda args: jnp.sum(least(args).value["a"]))(0.3)
    told[name].append(round(float(slope), 1))

golden = optx.GoldenSearch(1e-4, 1e-4)
told["golden"] = round(float(optx.minimise(lambda y, _: (y - 0.3) ** 2, golden, jnp.array(0.5), options={"lower": -1.0, "upper": 1.0}).value), 2)  # fmt: skip
fixed = lambda args: optx.fixed_point(lambda y, args: jnp.cos(args * y), optx.FixedPointIteration(**tight), jnp.array(0.5), args).value  # fmt: skip
told["fixed"] = [float(fixed(0.9)), float(jax.grad(fixed)(0.9)), jax.vmap(fixed)(jnp.array([0.5, 0.8])).tolist()]  # fmt: skip
direct = optx.root_find(lambda y, a: y**3 - a, optx.Newton(**tight), jnp.array(1.0), 2.0, adjoint=optx.RecursiveCheckpointAdjoint())  # fmt: skip
told["adjoint"] = [float(direct.value), float(jax.grad(lambda a: optx.root_find(lambda y, a: y**3 - a, optx.Newton(**tight), jnp.array(1.0), a, adjoint=optx.RecursiveCheckpointAdjoint()).value)(2.0))]  # fmt: skip
with_aux = optx.least_squares(lambda y, _: (y - jnp.arange(2.0), {"sum": y.sum()}), optx.GaussNewton(**tight), jnp.ones(2), has_aux=True)  # fmt: skip
told["aux"] = float(with_aux.aux["sum"])
try:
    optx.root_find(lambda y, _: y**2 + 1, optx.Newton(**tight), jnp.array(0.5), max_steps=8)
    told["refused"] = ""
except Exception as error:
    told["refused"] = "maximum number" in str(error)
RESULT = told
