"""Transformations as users call them: each takes a function and returns a function.

Reading order: `grad.py`, `vjp.py`, `jvp.py`, `vmap.py`, `jacobian.py`, `custom_jvp.py`, `custom_vjp.py`,
`checkpoint.py`, `make_jaxpr.py`. May import lax and below.

Also: `arguments.py` (shared handling of arguments), `checkify.py` (a function that also returns whether a check
failed), `checks.py` (checks of values at run time), `closure_convert.py` (what a function closes over becomes
arguments), `custom_gradient.py` (a function that returns its value together with its pullback), `custom_vmap.py` (a
function with its own batching rule), `exported_call.py` (the call of one) and `export.py` (a compiled function as a file that other processes and later
versions run), `export_shapes.py` (symbolic shapes of exported programs), `export_trees.py` (pytree structures and types as JSON, for exported programs), `hi_primitive.py` (primitives as classes
with rules of their own), `linear_call.py`
(`linear_call` and `custom_transpose`), `jet.py` (higher derivatives along a curve), `named_call.py` (a function whose equations stand under its name in programs
and profiles), `policies.py` (which values `checkpoint` keeps), `remat_opt.py` (the forward rule of a `custom_vjp`
with `optimize_remat=True`), `saved_residuals.py` (the residuals that reverse mode keeps),
`vjp_refs.py` (cotangents accumulated in references).
"""
