"""lineax: each solver on systems that it is for, operators of each kind, and derivatives through the solutions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx

matrix = jax.random.normal(jax.random.key(0), (4, 4)) + 4 * jnp.eye(4)
tall, wide = (
    jax.random.normal(jax.random.key(1), (6, 3)),
    jax.random.normal(jax.random.key(2), (3, 6)),
)
positive = matrix @ matrix.T
bands = jnp.array([4.0, 5.0, 6.0, 7.0]), jnp.array([1.0, -1.0, 0.5]), jnp.array([0.3, 0.2, 0.1])
dense = lambda *tags: lambda m: lx.MatrixLinearOperator(m, tags)
tight = {"rtol": 1e-4, "atol": 1e-4}
# A solver, the operator made of the matrix, the matrix.
systems = {
    "lu": (lx.LU(), dense(), matrix),
    "qr": (lx.QR(), dense(), tall),
    "qr_wide": (lx.QR(), dense(), wide),
    "svd": (lx.SVD(), dense(), tall),
    "svd_singular": (lx.SVD(), dense(), jnp.ones((3, 3))),
    "cholesky": (lx.Cholesky(), dense(lx.positive_semidefinite_tag), positive),
    "negative": (lx.Cholesky(), dense(lx.negative_semidefinite_tag), -positive),
    "triangular": (lx.Triangular(), dense(lx.lower_triangular_tag), jnp.tril(matrix)),
    "unit": (lx.Triangular(), dense(lx.upper_triangular_tag, lx.unit_diagonal_tag), jnp.triu(matrix, 1) + jnp.eye(4)),
    "diagonal": (lx.Diagonal(), lambda m: lx.DiagonalLinearOperator(jnp.diagonal(m)), matrix),
    "tridiagonal": (lx.Tridiagonal(), lambda m: lx.TridiagonalLinearOperator(bands[0] + m[0, 0], *bands[1:]), matrix),
    "cg": (lx.CG(**tight), dense(lx.positive_semidefinite_tag), positive),
    "normal_cg": (lx.NormalCG(**tight), dense(), matrix),
    "gmres": (lx.GMRES(**tight), dense(), matrix),
    "bicgstab": (lx.BiCGStab(**tight), dense(), matrix),
    "lsmr": (lx.LSMR(**tight), dense(), tall),
    "auto": (lx.AutoLinearSolver(well_posed=True), dense(), matrix),
    "auto_tall": (lx.AutoLinearSolver(well_posed=None), dense(), tall),
    "auto_any": (lx.AutoLinearSolver(well_posed=False), dense(), wide),
    "function": (lx.GMRES(**tight), lambda m: lx.FunctionLinearOperator(lambda v: m @ v, jax.eval_shape(lambda: jnp.ones(4))), matrix),
    "jacobian": (lx.LU(), lambda m: lx.JacobianLinearOperator(lambda y, args: jnp.sin(m @ y) + 3 * y, jnp.ones(4)), matrix),
    "composed": (lx.LU(), lambda m: dense()(m) @ dense()(m).T + 2 * lx.IdentityLinearOperator(jax.eval_shape(lambda: jnp.ones(4))), matrix),
}  # fmt: skip
told = {}
for name, (solver, operator, m) in systems.items():
    b = jnp.linspace(-1.0, 2.0, operator(m).out_size())
    solve = lambda m, b: lx.linear_solve(operator(m), b, solver, throw=False)
    found = eqx.filter_jit(solve)(m, b)
    told[name] = [found.value.tolist(), bool(found.result == lx.RESULTS.successful)]
    if name not in (
        "svd_singular",
        "lsmr",
        "gmres",
        "bicgstab",
        "function",
    ):  # those break down in float32, with the transposed matrix
        norm = lambda m, b: jnp.sum(solve(m, b).value ** 2)
        told[name] += [g.tolist() for g in jax.grad(norm, (0, 1))(m, b)]
        told[name].append(jax.vmap(lambda s: solve(m, s * b).value)(jnp.array([1.0, 2.0])).tolist())

# Trees, blocks of trees, a state computed once, what an operator says of itself.
b = {"x": jnp.ones(2), "y": jnp.array(3.0)}
blocks = lx.PyTreeLinearOperator(
    {"x": {"x": 3 * jnp.eye(2), "y": jnp.ones(2)}, "y": {"x": jnp.array([1.0, 0.0]), "y": jnp.array(5.0)}},
    jax.eval_shape(lambda: b),
)  # fmt: skip
told["tree"] = jax.tree.map(lambda x: x.tolist(), lx.linear_solve(blocks, b).value)
operator = dense()(matrix)
state = lx.LU().init(operator, {})
told["state"] = lx.linear_solve(operator, jnp.ones(4), lx.LU(), state=state).value.tolist()
told["pullback"] = lx.materialise(lx.JacobianLinearOperator(lambda y, args: y**2, jnp.arange(3.0))).as_matrix().tolist()  # fmt: skip
told["second"] = jax.hessian(lambda b: jnp.sum(lx.linear_solve(operator, b).value ** 3))(jnp.ones(4)).tolist()  # fmt: skip
told["jvp"] = jax.jvp(lambda m: lx.linear_solve(dense()(m), jnp.ones(4)).value, (matrix,), (jnp.eye(4),))[1].tolist()  # fmt: skip
told["is"] = [lx.is_symmetric(dense(lx.symmetric_tag)(positive)), lx.is_diagonal(operator), lx.has_unit_diagonal(operator)]  # fmt: skip
try:
    lx.linear_solve(dense()(jnp.zeros((2, 2))), jnp.ones(2), lx.LU())
    told["refused"] = ""
except Exception as error:
    told["refused"] = "linear solver" in str(error)
RESULT = told
