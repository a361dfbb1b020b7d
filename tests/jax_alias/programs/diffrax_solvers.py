"""diffrax: explicit, implicit, split and stochastic solvers, every adjoint, what is saved, events, and a neural field."""

import diffrax as dfx
import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix as optx


def field(t, y, args):  # van der Pol
    return jnp.array([y[1], args * (1 - y[0] ** 2) * y[1] - y[0]])


start, term = jnp.array([1.0, 0.5]), dfx.ODETerm(field)
adaptive = dfx.PIDController(rtol=1e-5, atol=1e-6)


def solve(solver, args=1.0, controller=adaptive, saveat=dfx.SaveAt(t1=True), terms=term, **more):
    return dfx.diffeqsolve(terms, solver, 0.0, 1.5, 0.05, start, args=args, stepsize_controller=controller, saveat=saveat, **more)  # fmt: skip


told = {}
for solver in (dfx.Euler(), dfx.Heun(), dfx.Midpoint(), dfx.Ralston(), dfx.LeapfrogMidpoint()):
    found = solve(solver, controller=dfx.ConstantStepSize())
    told[type(solver).__name__] = found.ys.tolist()
newton = optx.Newton(rtol=1e-6, atol=1e-6)
for solver in (dfx.Bosh3(), dfx.Tsit5(), dfx.Dopri5(), dfx.Dopri8(), dfx.Kvaerno3(), dfx.Kvaerno5(), dfx.ImplicitEuler(root_finder=newton)):  # fmt: skip
    constant = dfx.ConstantStepSize() if isinstance(solver, dfx.ImplicitEuler) else adaptive
    found = solve(solver, controller=constant)
    told[type(solver).__name__] = [found.ys.tolist(), int(found.stats["num_accepted_steps"])]
parts = dfx.MultiTerm(term, dfx.ODETerm(lambda t, y, args: -0.3 * y))
told["imex"] = solve(dfx.KenCarp4(), terms=parts).ys.tolist()
kicks = dfx.diffeqsolve(
    (dfx.ODETerm(lambda t, v, a: v), dfx.ODETerm(lambda t, x, a: -jnp.sin(x))), dfx.SemiImplicitEuler(), 0.0, 1.0, 0.1, (jnp.array(1.0), jnp.array(0.0))
)  # fmt: skip
told["symplectic"] = [float(x[0]) for x in kicks.ys]

adjoints = {
    "checkpointed": dfx.RecursiveCheckpointAdjoint(checkpoints=5),
    "direct": dfx.DirectAdjoint(),
    "backsolve": dfx.BacksolveAdjoint(solver=dfx.Tsit5()),
}
for name, adjoint in adjoints.items():
    end = lambda args: jnp.sum(solve(dfx.Tsit5(), args, adjoint=adjoint, max_steps=64).ys ** 2)
    told[name] = [float(x) for x in jax.jit(jax.value_and_grad(end))(1.2)]
told["forward"] = float(jax.jvp(lambda a: solve(dfx.Tsit5(), a, adjoint=dfx.ForwardMode()).ys.sum(), (1.2,), (1.0,))[1])  # fmt: skip
told["both"] = float(jax.jvp(jax.grad(lambda a: solve(dfx.Heun(), a, controller=dfx.ConstantStepSize(), adjoint=dfx.DirectAdjoint(), max_steps=40).ys.sum()), (1.2,), (1.0,))[1])  # fmt: skip

saved = solve(dfx.Tsit5(), saveat=dfx.SaveAt(t0=True, t1=True, ts=jnp.linspace(0.1, 1.4, 4), fn=lambda t, y, args: {"y": y, "energy": jnp.sum(y**2)}))  # fmt: skip
told["saved"] = [saved.ts.tolist(), saved.ys["energy"].tolist(), saved.ys["y"].tolist()]
every = solve(dfx.Tsit5(), saveat=dfx.SaveAt(steps=True), max_steps=32)
told["steps"] = [int(jnp.isfinite(every.ts).sum()), float(jnp.where(jnp.isfinite(every.ys), every.ys, 0).sum())]  # fmt: skip
subs = solve(dfx.Tsit5(), saveat=dfx.SaveAt(subs=[dfx.SubSaveAt(t0=True), dfx.SubSaveAt(ts=jnp.array([0.5]), fn=lambda t, y, args: y[0])]))  # fmt: skip
told["subs"] = [x.tolist() for x in subs.ys]
dense = solve(dfx.Tsit5(), saveat=dfx.SaveAt(dense=True))
told["dense"] = [dense.evaluate(0.77).tolist(), dense.evaluate(0.2, 0.9).tolist(), dense.derivative(0.77).tolist()]  # fmt: skip
told["batch"] = jax.vmap(lambda a: solve(dfx.Tsit5(), a).ys)(jnp.array([0.5, 1.0, 2.0])).tolist()

event = dfx.Event(lambda t, y, args, **_: y[1], optx.Newton(1e-5, 1e-5), direction=False)
crossed = lambda args: dfx.diffeqsolve(term, dfx.Tsit5(), 0.0, 10.0, 0.05, start, args=args, stepsize_controller=adaptive, event=event)  # fmt: skip
found = jax.jit(crossed)(1.0)
told["event"] = [float(found.ts[0]), found.ys.tolist(), bool(found.result == dfx.RESULTS.event_occurred), [bool(x) for x in jax.tree.leaves(found.event_mask)]]  # fmt: skip
told["event_slope"] = float(jax.grad(lambda a: crossed(a).ts[0])(1.0))
still = dfx.diffeqsolve(dfx.ODETerm(lambda t, y, args: -y), dfx.Kvaerno3(), 0.0, jnp.inf, 0.1, start, max_steps=None, stepsize_controller=adaptive, event=dfx.Event(dfx.steady_state_event(rtol=1e-3, atol=1e-3)), adjoint=dfx.ImplicitAdjoint())  # fmt: skip
told["steady"] = bool(jnp.all(jnp.abs(still.ys) < 1e-2))

path = dfx.VirtualBrownianTree(0.0, 1.5, tol=1e-3, shape=(2,), key=jax.random.key(4))
noise = dfx.ControlTerm(lambda t, y, args: 0.2 * jnp.diag(y), path)
for solver in (dfx.EulerHeun(), dfx.ItoMilstein(), dfx.ReversibleHeun()):
    terms = dfx.MultiTerm(term, dfx.ControlTerm(lambda t, y, args: 0.2 * y, dfx.VirtualBrownianTree(0.0, 1.5, 1e-3, (), jax.random.key(4))) if isinstance(solver, dfx.ItoMilstein) else noise)  # fmt: skip
    told["noisy " + type(solver).__name__] = solve(solver, terms=terms, controller=dfx.ConstantStepSize()).ys.tolist()  # fmt: skip
areas = dfx.VirtualBrownianTree(0.0, 1.5, tol=1e-3, shape=(2,), key=jax.random.key(5), levy_area=dfx.SpaceTimeLevyArea)  # fmt: skip
told["levy"] = solve(dfx.ShARK(), terms=dfx.MultiTerm(term, dfx.ControlTerm(lambda t, y, args: 0.1 * jnp.eye(2), areas)), controller=dfx.ConstantStepSize()).ys.tolist()  # fmt: skip

times = jnp.linspace(0.0, 1.5, 6)
coefficients = dfx.backward_hermite_coefficients(times, jnp.stack([times, jnp.sin(3 * times)], 1))
control = dfx.CubicInterpolation(times, coefficients)
driven = dfx.ControlTerm(lambda t, y, args: jnp.tanh(jnp.outer(y, jnp.ones(2))), control).to_ode()
told["controlled"] = solve(dfx.Tsit5(), terms=driven).ys.tolist()


class Field(eqx.Module):
    mlp: eqx.nn.MLP

    def __call__(self, t, y, args):
        return self.mlp(y)


@eqx.filter_jit
@eqx.filter_value_and_grad
def loss(model):
    found = solve(dfx.Tsit5(), terms=dfx.ODETerm(model), saveat=dfx.SaveAt(ts=times))
    return jnp.mean((found.ys - jnp.exp(-times)[:, None]) ** 2)


model, told["learned"] = Field(eqx.nn.MLP(2, 2, 8, 1, key=jax.random.key(6))), []
for _ in range(3):
    value, grads = loss(model)
    model = eqx.apply_updates(model, jax.tree.map(lambda g: -0.1 * g, grads))
    told["learned"].append(float(value))
try:
    solve(dfx.Tsit5(), max_steps=3)
    told["refused"] = ""
except Exception as error:
    told["refused"] = "maximum number" in str(error)
RESULT = told
