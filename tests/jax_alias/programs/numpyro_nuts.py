"""numpyro: NUTS on a regression, and a variational guide."""

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

x = jnp.linspace(-1.0, 1.0, 20)
y = 2.0 * x + 0.5 + 0.1 * jnp.cos(9 * x)


def model(x, y=None):
    slope, offset = (
        numpyro.sample("slope", dist.Normal(0, 2)),
        numpyro.sample("offset", dist.Normal(0, 2)),
    )
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    with numpyro.plate("data", x.shape[0]):
        numpyro.sample("y", dist.Normal(slope * x + offset, noise), obs=y)


mcmc = MCMC(NUTS(model), num_warmup=10, num_samples=5, progress_bar=False)
mcmc.run(jax.random.key(0), x, y)
samples = mcmc.get_samples()
svi = SVI(model, AutoNormal(model), numpyro.optim.Adam(0.05), Trace_ELBO())
fitted = svi.run(jax.random.key(1), 60, x, y, progress_bar=False)
predicted = Predictive(model, samples)(jax.random.key(2), x)["y"]
RESULT = {
    "slope": float(samples["slope"].mean()),
    "noise": float(samples["noise"].mean()),
    "elbo": float(fitted.losses[-1]),
    "predicted": float(predicted.mean()),
}
