"""Attention: arguments in lists, and lengths without a batch."""

import numpy as np

from xlab.nn import dot_product_attention

Q, K, V = np.random.RandomState(0).randn(3, 4, 2, 8).astype(np.float32)
BIAS = np.random.RandomState(1).randn(2, 4, 4).astype(np.float32)


def test_lists_are_arrays():
    expected = dot_product_attention(Q, K, V, BIAS)
    out = dot_product_attention(Q.tolist(), K.tolist(), V.tolist(), BIAS.tolist())
    np.testing.assert_allclose(out, expected, rtol=1e-5)


def test_lengths_of_one_example_keep_its_shape():
    lengths = {"query_seq_lengths": [3], "key_value_seq_lengths": [2]}
    out = dot_product_attention(Q, K, V, **lengths)
    assert out.shape == Q.shape
    np.testing.assert_array_equal(
        out, dot_product_attention(Q[None], K[None], V[None], **lengths)[0]
    )
    assert not out[3].any() and out[2].any()
