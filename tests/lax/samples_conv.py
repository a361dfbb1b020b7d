"""Samples of `lax`: convolutions, and how exactly products are computed."""

from __future__ import annotations

import numpy as np

from tests.reference.data import BF16, bools, complexes, floats, ints
from tests.reference.sample import ALL, VALUE, WHOLE, Sample

SHOWN = (*ALL, "text")


def conv(*args, **kwargs):
    return lambda n, x, w: n.lax.conv_general_dilated(x, w, *args, **kwargs)


X, W = floats(4, 6, 5, 7), floats(4, 6, 3, 2)
NHWC, HWIO = X.transpose(0, 2, 3, 1).copy(), W.transpose(2, 3, 1, 0).copy()
GEOMETRY = {
    "same": ((1, 1), "SAME"), "valid": ((2, 1), "VALID"), "same_lower": ((2, 3), "SAME_LOWER"), "words": ((1, 1), "same"),
    "explicit": ((1, 2), ((1, 0), (2, 1))), "negative": ((1, 1), ((-1, 1), (0, -2))),
    "lhs_dilation": ((2, 1), ((1, 1), (0, 2)), (2, 3)), "rhs_dilation": ((1, 2), ((2, 1), (1, 1)), None, (2, 3)),
    "both_dilations": ((3, 2), ((2, 1), (1, 3)), (2, 1), (1, 2)), "rhs_dilation_same": ((1, 2), "SAME", None, (2, 3)),
    "wide_padding": ((2, 2), ((5, 4), (3, 3))), "leftover": ((3, 4), "VALID"),
}
LAYOUTS = {
    "nhwc": (("NHWC", "HWIO", "NHWC"), NHWC, HWIO), "mixed": (("NHWC", "OIHW", "HWNC"), NHWC, W),
    "cnhw": (("CNHW", "IOHW", "NCWH"), X.transpose(1, 0, 2, 3).copy(), W.transpose(1, 0, 2, 3).copy()),
    "odd_letters": (("N@C#", "#IO@", "C#N@"), X.transpose(0, 2, 1, 3).copy(), W.transpose(3, 1, 0, 2).copy()),
}
GENERAL = [
    *(Sample(f"conv_{name}", conv(*geometry), [X, W], SHOWN if name != "negative" else ("text",))
      for name, geometry in GEOMETRY.items()),
    *(Sample(f"conv_layout_{name}", conv((2, 1), ((1, 2), (0, 1)), (1, 2), (2, 1), numbers), [x, w], SHOWN)
      for name, (numbers, x, w) in LAYOUTS.items()),
    Sample("conv_numbers", lambda n, x, w: n.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=n.lax.ConvDimensionNumbers((0, 3, 1, 2), (3, 2, 0, 1), (0, 3, 1, 2))),
        [NHWC, HWIO], SHOWN),
    Sample("conv_1d", conv((2,), "SAME"), [floats(2, 3, 9), floats(4, 3, 4)], SHOWN),
    Sample("conv_3d", conv((1, 2, 1), "SAME"), [floats(2, 2, 3, 4, 3), floats(3, 2, 2, 2, 2)]),
    Sample("conv_0d", conv((), "VALID"), [floats(2, 3), floats(4, 3)]),
    *(Sample(f"conv_features_{groups}", conv((1, 2), ((1, 1), (0, 1)), (1, 2), (2, 1), feature_group_count=groups),
             [X, floats(12, 6 // groups, 3, 2)]) for groups in (2, 3, 6)),
    *(Sample(f"conv_batch_{groups}", conv((1, 2), ((1, 1), (0, 1)), (1, 2), (2, 1), batch_group_count=groups),
             [X, floats(8, 6, 3, 2)]) for groups in (2, 4)),
    Sample("conv_features_nhwc", conv((1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=3),
           [NHWC, floats(3, 2, 2, 6)]),
    Sample("conv_batch_nhwc", conv((1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), batch_group_count=2),
           [NHWC, floats(3, 2, 6, 4)]),
    Sample("conv_left_mapped", lambda n, x, w: n.jax.vmap(conv((1, 1), "SAME").__get__(n), (1, None), 2)(x, w),
           [floats(2, 3, 3, 5, 5), floats(4, 3, 2, 2)], ("eager", "jit", "grad")),
    *(Sample(f"conv_mapped_{where}_{kind}", lambda n, x, w, where=where, groups=groups: n.jax.vmap(
        lambda x, w: n.lax.conv_general_dilated(x, w, (1, 2), "SAME", **groups), {"both": (1, 2), "left": (1, None),
                                                                                 "right": (None, 2)}[where], 1)(x, w),
             [floats(*((4, 3, 6, 5, 7) if where != "right" else (4, 6, 5, 7))),
              floats(*((12, 6 // features, 3, 2) if where == "left" else (12, 6 // features, 3, 3, 2)))],
             ("eager", "jit", "grad", "jvp", "vmap"), tol=1e-4)
      for where in ("both", "left", "right")
      for kind, features, groups in (("plain", 1, {}), ("features", 3, {"feature_group_count": 3}),
                                     ("batch", 1, {"batch_group_count": 2}))),
    Sample("conv_bfloat16", conv((1, 1), "SAME"), [X.astype(BF16), W.astype(BF16)]),
    Sample("conv_preferred", conv((1, 1), "SAME", preferred_element_type=np.float32), [X.astype(BF16), W.astype(BF16)],
           SHOWN, tol=2e-2),
    Sample("conv_int", conv((1, 1), "SAME"), [ints(1, 2, 5, 5), ints(2, 2, 3, 3)], (*WHOLE, "text")),
    Sample("conv_int8", conv((1, 1), "SAME", preferred_element_type=np.int32),
           [ints(1, 2, 5, 5, dtype=np.int8), ints(2, 2, 3, 3, dtype=np.int8)], WHOLE),
    Sample("conv_int8_float", conv((1, 1), "SAME", preferred_element_type=np.float32),
           [ints(1, 2, 5, 5, dtype=np.int8), ints(2, 2, 3, 3, dtype=np.int8)], VALUE),
    Sample("conv_bool", conv((1, 1), "SAME"), [bools(1, 2, 5, 5), bools(2, 2, 3, 3)], VALUE),
    Sample("conv_complex", conv((1, 2), "SAME"), [complexes(2, 3, 5, 5), complexes(4, 3, 2, 2)], tol=1e-4),
    Sample("conv_x64", conv((1, 2), "SAME"), [floats(2, 3, 5, 5, dtype=np.float64), floats(4, 3, 2, 2, dtype=np.float64)],
           x64=True),
    Sample("conv_high", conv((1, 1), "SAME", precision="high"), [X, W], (*VALUE, "text", "grad")),
    Sample("conv_precisions", lambda n, x, w: n.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", precision=(n.lax.Precision.HIGHEST, n.lax.Precision.DEFAULT)), [X, W], ("eager", "text")),
    Sample("conv_algorithm", conv((1, 1), "SAME", precision="F32_F32_F32"), [X, W], ("eager", "text")),
    Sample("conv_empty_batch", conv((1, 1), "SAME"), [X[:0], W], WHOLE),
    Sample("conv_empty_result", conv((1, 1), "VALID"), [X, floats(4, 6, 9, 2)], WHOLE),
    Sample("conv_second_order", lambda n, x, w: n.lax.sin(n.lax.conv_general_dilated(x, w, (2,), ((1, 2),))),
           [floats(2, 2, 6), floats(3, 2, 3)], ("grad.grad", "jvp.grad", "grad.jvp", "vmap.grad", "jit.grad", "linearize")),
]

NAMED = [
    Sample("conv", lambda n, x, w: n.lax.conv(x, w, (2, 1), "SAME"), [X, W], SHOWN),
    Sample("conv_general_padding", lambda n, x, w: n.lax.conv_with_general_padding(
        x, w, (1, 1), ((1, 2), (0, 1)), (2, 1), (1, 2)), [X, W], SHOWN),
    *(Sample(f"conv_transpose_{padding.lower()}_{k}_{s}", lambda n, x, w, s=s, padding=padding: n.lax.conv_transpose(
        x, w, (s,), padding), [floats(2, 7, 3), floats(k, 3, 4)], ("eager", "jit", "grad", "text"))
      for padding in ("SAME", "VALID") for k in (1, 2, 3, 5) for s in (1, 2, 4)),
    Sample("conv_transpose_2d", lambda n, x, w: n.lax.conv_transpose(x, w, (2, 3), "SAME", (2, 1)),
           [floats(2, 4, 5, 3), floats(3, 2, 3, 4)], SHOWN),
    Sample("conv_transpose_3d", lambda n, x, w: n.lax.conv_transpose(x, w, (1, 2, 1), "VALID"),
           [floats(1, 2, 3, 2, 3), floats(2, 2, 2, 3, 2)]),
    Sample("conv_transpose_kernel", lambda n, x, w: n.lax.conv_transpose(x, w, (2, 2), "SAME", transpose_kernel=True),
           [floats(2, 4, 5, 3), floats(3, 2, 4, 3)], SHOWN),
    Sample("conv_transpose_explicit", lambda n, x, w: n.lax.conv_transpose(x, w, (2,), [(1, 2)]),
           [floats(1, 7, 1), floats(3, 1, 1)], SHOWN),
    Sample("conv_transpose_consistent", lambda n, x, w: n.lax.conv_transpose(x, w, (2,), [(1, 2)],
                                                                             use_consistent_padding=True),
           [floats(1, 7, 1), floats(3, 1, 1)], SHOWN),
    Sample("conv_transpose_nchw", lambda n, x, w: n.lax.conv_transpose(
        x, w, (2, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"), transpose_kernel=True),
        [floats(2, 3, 4, 5), floats(3, 4, 3, 2)]),
    Sample("patches", lambda n, x: n.lax.conv_general_dilated_patches(x, (3, 2), (1, 2), "SAME"), [X]),
    Sample("patches_nhwc", lambda n, x: n.lax.conv_general_dilated_patches(
        x, (3, 2), (1, 2), ((1, 0), (0, 2)), (1, 2), (2, 1), ("NHWC", "OIHW", "NHWC")), [NHWC]),
    Sample("patches_hwio", lambda n, x: n.lax.conv_general_dilated_patches(
        x, (3, 2), (1, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "CNHW")), [NHWC]),
    Sample("local", lambda n, x, w: n.lax.conv_general_dilated_local(x, w, (1, 2), "VALID", (2, 3)),
           [floats(2, 3, 4, 5), floats(4, 18, 3, 2)]),
    Sample("local_nhwc", lambda n, x, w: n.lax.conv_general_dilated_local(
        x, w, (1, 1), "SAME", (2, 3), dimension_numbers=("NHWC", "HWIO", "CNHW")),
        [floats(2, 4, 5, 3), floats(4, 5, 18, 2)]),
]

SHAPES = [
    Sample(name, lambda n, call=call: call(n.lax), [], ("eager",)) for name, call in {
        "permutations": lambda lax: lax.conv_general_permutations(("NHWC", "HWIO", "NCHW")),
        "numbers_none": lambda lax: lax.conv_dimension_numbers((1, 2, 3), (1, 2, 3), None),
        "numbers_strings": lambda lax: lax.conv_dimension_numbers((1, 2, 3, 4), (4, 3, 2, 1), ("NHWC", "HWIO", "NCHW")),
    }.items()] + [
    Sample(name, lambda n, call=call: tuple(map(int, call(n.lax))), [], ("eager",)) for name, call in {
        "shape": lambda lax: lax.conv_shape_tuple((2, 3, 8, 9), (4, 3, 3, 3), (1, 2), ((1, 1), (0, 0))),
        "shape_same": lambda lax: lax.conv_shape_tuple((2, 3, 8, 9), (4, 3, 3, 3), (1, 2), "SAME"),
        "shape_batch": lambda lax: lax.conv_shape_tuple((2, 3, 8, 9), (4, 3, 3, 3), (1, 2), "SAME", 2),
        "shape_general": lambda lax: lax.conv_general_shape_tuple((2, 8, 9, 3), (3, 3, 3, 4), (1, 2), "SAME",
                                                                  ("NHWC", "HWIO", "NCHW")),
        "shape_transpose": lambda lax: lax.conv_transpose_shape_tuple((2, 8, 9, 3), (3, 3, 3, 4), (2, 2), "SAME",
                                                                      ("NHWC", "HWIO", "NCHW")),
        "shape_transpose_valid": lambda lax: lax.conv_transpose_shape_tuple((2, 8, 9, 3), (3, 3, 3, 4), (2, 2), "VALID",
                                                                            ("NHWC", "HWIO", "NCHW")),
    }.items()]

BAD = {
    "rank": ("TypeError", ((1, 1), "SAME"), X, W[0]), "strides": ("ValueError", ((1,), "SAME"), X, W),
    "stride_zero": ("ValueError", ((0, 1), "VALID"), X, W), "dtypes": ("TypeError", ((1, 1), "SAME"), X, W.astype(BF16)),
    "features": ("ValueError", ((1, 1), "SAME"), X, W[:, :2]), "padding": ("RuntimeError", ((1, 1), "FULL"), X, W),
    "padding_rank": ("TypeError", ((1, 1), [(1, 1)]), X, W), "padding_pairs": ("ValueError", ((1, 1), [1, 1]), X, W),
    "string_dilated": ("ValueError", ((1, 1), "SAME", (2, 2)), X, W),
    "rhs_dilation": ("TypeError", ((1, 1), "VALID", None, (0, 1)), X, W),
    "numbers_length": ("TypeError", ((1, 1), "SAME", None, None, ("NCHW", "OIHW")), X, W),
    "numbers_letters": ("TypeError", ((1, 1), "SAME", None, None, ("NCHW", "OIHW", "NCHX")), X, W),
    "numbers_twice": ("TypeError", ((1, 1), "SAME", None, None, ("NCHH", "OIHW", "NCHW")), X, W),
    "numbers_rank": ("TypeError", ((1, 1), "SAME", None, None, ("NCH", "OIH", "NCH")), X, W),
    "numbers_missing": ("TypeError", ((1, 1), "SAME", None, None, ("ABHW", "OIHW", "NCHW")), X, W),
    "numbers_kind": ("TypeError", ((1, 1), "SAME", None, None, 5), X, W),
}
BAD_OPTIONS = {
    "feature_groups": ("ValueError", {"feature_group_count": 4}), "feature_groups_zero": ("ValueError", {"feature_group_count": 0}),
    "batch_groups": ("ValueError", {"batch_group_count": 3}), "batch_groups_zero": ("ValueError", {"batch_group_count": 0}),
    "preferred_kind": ("TypeError", {"preferred_element_type": np.int32}),
    "preferred_narrow": ("TypeError", {"preferred_element_type": BF16}), "precision": ("ValueError", {"precision": "exact"}),
}
ERRORS = [
    *(Sample(f"bad_{name}", conv(*args), [x, w], error=error) for name, (error, args, x, w) in BAD.items()),
    *(Sample(f"bad_{name}", conv((1, 1), "SAME", **options), [X, W], error=error)
      for name, (error, options) in BAD_OPTIONS.items()),
    Sample("bad_signedness", conv((1,), "SAME", preferred_element_type=np.uint32),
           [ints(1, 2, 5, dtype=np.int8), ints(2, 2, 3, dtype=np.int8)], error="TypeError"),
    Sample("bad_transpose_padding", lambda n, x, w: n.lax.conv_transpose(x, w, (2,), "SAME_LOWER"),
           [floats(1, 7, 1), floats(3, 1, 1)], error="ValueError"),
    Sample("bad_transpose_rank", lambda n, x: n.lax.conv_transpose(x, x, (1,) * 4, "SAME"), [floats(1, 1, 1, 1, 1, 1)],
           error="ValueError"),
    Sample("bad_permutations", lambda n: n.lax.conv_general_permutations(("NHWC", "HWIO", "NCHX")), [], error="TypeError"),
]


def dot(**kwargs):
    return lambda n, x, y: n.lax.dot(x, y, **kwargs)


A, B = floats(4, 3), floats(3, 5)
PRECISION = [
    *(Sample(f"dot_{name.lower()}", dot(precision=name), [A, B], ("eager", "jit", "grad", "text"), tol=3e-2)
      for name in ("F16_F16_F16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "F32_F32_F32", "F64_F64_F64")),
    Sample("dot_preset", lambda n, x, y: n.lax.dot(x, y, precision=n.lax.DotAlgorithmPreset.DEFAULT), [A, B],
           ("eager", "grad", "text")),
    Sample("dot_algorithm", lambda n, x, y: n.lax.dot(x, y, precision=n.lax.DotAlgorithm(np.float32, np.float32, np.float32)),
           [A, B], ("text",)),
    Sample("dot_numbers", dot(dimension_numbers=(((0,), (1,)), ((), ()))), [A, floats(5, 4)]),
    Sample("dot_mixed_precision", dot(precision=("highest", "default")), [A, B], ("eager", "grad", "text")),
    Sample("dot_one_precision", dot(precision=("high", None)), [A, B], error="ValueError"),
    Sample("dot_bad_precision", dot(precision="exact"), [A, B], error="ValueError"),
    Sample("dot_bad_number", dot(precision=5), [A, B], error="ValueError"),
    Sample("dot_three_precisions", dot(precision=("high",) * 3), [A, B], error="ValueError"),
    Sample("dot_not_on_cpu", dot(precision="TF32_TF32_F32"), [A, B], error="ValueError"),
    Sample("dot_algorithm_not_on_cpu", lambda n, x, y: n.lax.dot(x, y, precision=n.lax.DotAlgorithm(
        np.int32, np.float32, np.float32)), [A, B], error="ValueError"),
    Sample("dot_rank", dot(), [floats(2, 3, 4), floats(4, 5)], error="ValueError"),
    Sample("dot_sizes", dot(), [A, A], error="ValueError"),
    Sample("dot_preferred_narrow", dot(preferred_element_type=np.int8), [ints(2, 3), ints(3, 2)], error="TypeError"),
    *(Sample(f"preset_{what}", lambda n, what=what: [str(getattr(p, what)) for p in n.lax.DotAlgorithmPreset], [],
             ("eager",)) for what in ("name", "accumulation_type", "supported_lhs_types", "supported_rhs_types")),
]

SAMPLES = [*GENERAL, *NAMED, *SHAPES, *ERRORS, *PRECISION]

# The reference reads beyond the operand on the CPU where padding is negative; ours is held to the laws alone.
CUT = [Sample(f"cut_{i}", conv(*geometry), [X, W]) for i, geometry in enumerate((
    GEOMETRY["negative"], ((1, 2), ((-1, 1), (2, -2)), (2, 2), (1, 2)), ((2, 1), ((-1, -1), (-1, 4)), (2, 1))))]
