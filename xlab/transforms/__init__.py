"""Transformations as users call them: each takes a function and returns a function.

Reading order: `grad.py`, `vjp.py`, `jvp.py`, `vmap.py`, `jacobian.py`, `custom_jvp.py`, `custom_vjp.py`,
`checkpoint.py`, `make_jaxpr.py`. May import lax and below.
"""
