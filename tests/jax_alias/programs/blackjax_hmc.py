"""blackjax: Hamiltonian Monte Carlo and window adaptation on a two-dimensional density."""

import blackjax
import jax
import jax.numpy as jnp


def logdensity(position):
    x, y = position["x"], position["y"]
    return -0.5 * (x**2 + (y - x) ** 2 / 0.25)


start = {"x": jnp.array(1.0), "y": jnp.array(-1.0)}
hmc = blackjax.hmc(logdensity, 0.1, jnp.ones(2), 10)
state, step = hmc.init(start), jax.jit(hmc.step)


def one(state, key):
    state, info = step(key, state)
    return state, (state.position, info.acceptance_rate)


_, (positions, rates) = jax.lax.scan(one, state, jax.random.split(jax.random.key(0), 100))
warmup = blackjax.window_adaptation(blackjax.nuts, logdensity)
(adapted, parameters), _ = warmup.run(jax.random.key(1), start, num_steps=60)
RESULT = {
    "x": float(positions["x"].mean()),
    "y": float(positions["y"].std()),
    "rate": float(rates.mean()),
    "step": float(parameters["step_size"]),
}
