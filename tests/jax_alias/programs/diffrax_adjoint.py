"""diffrax, optimistix, lineax: an ODE and the gradient of its solution, a root, a linear system."""

import diffrax
import jax
import jax.numpy as jnp
import lineax
import optimistix


def field(t, y, args):
    return jnp.array([y[1], -args * y[0]])


def end(stiffness, adjoint):
    solved = diffrax.diffeqsolve(
        diffrax.ODETerm(field), diffrax.Tsit5(), 0.0, 2.0, 0.1, jnp.array([1.0, 0.0]), args=stiffness,
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6), adjoint=adjoint,
        saveat=diffrax.SaveAt(ts=jnp.linspace(0, 2, 5)),
    )  # fmt: skip
    return jnp.sum(solved.ys**2)


grads = [
    float(jax.grad(end)(2.0, adjoint))
    for adjoint in (diffrax.RecursiveCheckpointAdjoint(), diffrax.BacksolveAdjoint())
]
root = optimistix.root_find(
    lambda y, args: y**3 - args, optimistix.Newton(1e-6, 1e-6), jnp.array(1.0), args=2.0
).value
matrix = jnp.array([[3.0, 1.0], [1.0, 2.0]])
solve = lambda b: (
    lineax.linear_solve(
        lineax.MatrixLinearOperator(matrix, lineax.positive_semidefinite_tag), b
    ).value
)
RESULT = {
    "grads": grads,
    "value": float(end(2.0, diffrax.DirectAdjoint())),
    "root": float(root),
    "solved": solve(jnp.array([1.0, 2.0])).tolist(),
    "jacobian": jax.jacrev(solve)(jnp.ones(2)).tolist(),
}
