"""Functions of neural networks: activations, softmax and its kin, attention; `initializers` for parameters.

Reading order: `activations.py`, `softmax.py`, `attention.py`. May import `numpy` and everything below it.

Also: `scaled.py` (products of arrays rounded to narrow numbers in blocks).
"""

from xlab.nn.activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    swish,
    tanh,
)
from xlab.nn.attention import dot_product_attention
from xlab.nn.scaled import get_scaled_dot_general_config, scaled_dot_general, scaled_matmul
from xlab.nn.softmax import log_softmax, logmeanexp, logsumexp, one_hot, softmax, standardize

__all__ = ["celu", "dot_product_attention", "elu", "gelu", "get_scaled_dot_general_config", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
           "identity", "leaky_relu", "log1mexp", "log_sigmoid", "log_softmax", "logmeanexp", "logsumexp", "mish", "one_hot",
           "relu", "relu6", "scaled_dot_general", "scaled_matmul", "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus", "sparse_plus", "sparse_sigmoid",
           "squareplus", "standardize", "swish", "tanh"]  # fmt: skip


def __getattr__(name: str):
    if name == "initializers":  # imported when first used
        from importlib import import_module

        return import_module("xlab.nn.initializers")
    from xlab.errors import no_attribute

    raise no_attribute("xlab.nn", name, [*__all__, "initializers"])
