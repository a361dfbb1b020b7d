"""Programs and options of the runtime below the compiler, for those who give it some that are not XLA's."""

from xlab.backend.native import _jax

ifrt_programs = _jax.ifrt_programs

__all__ = ["ifrt_programs"]
