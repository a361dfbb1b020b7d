"""The suites of libraries written for JAX, run with xlab in its place.

    python -m tests.libraries optax chex      # these; `all` for every one
    python -m tests.libraries optax -k adam   # what follows is pytest's
    python -m tests.libraries optax:optax/losses,optax/tree_utils   # a part of one, the files and folders of it that are named
    python -m tests.libraries numpyro --shard 2/8   # an eighth of its tests, as one machine of eight would run it

A file `LIBRARY.toml` says where a library has its tests and which of them differ from what they do on JAX, each with its reason. Libraries and
their versions are those of the extra `libraries`; the suites are in their source distributions, which pip fetches once. Those of equinox, diffrax, lineax and optimistix hold no tests: programs that use them stand in
`tests/jax_alias/programs`. That of orbax holds test classes to derive from, and benchmarks that compare what they restore: `cases/` runs them, in one process as `orbax` and in two that join as `orbax_processes`.
"""
