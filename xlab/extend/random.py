"""Random number generators: those there are, and those of one's own."""

from xlab.random.bits import implementations as _implementations
from xlab.random.custom import define_prng_impl, random_seed, seed_with_impl, threefry_2x32
from xlab.random.threefry import threefry2x32_p

__all__ = [
    "define_prng_impl",
    "random_seed",
    "rbg_prng_impl",
    "seed_with_impl",
    "threefry2x32_p",
    "threefry_2x32",
    "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]

threefry_prng_impl = _implementations["threefry2x32"]
rbg_prng_impl = _implementations["rbg"]
unsafe_rbg_prng_impl = _implementations["unsafe_rbg"]
