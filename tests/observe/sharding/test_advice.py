"""Advice is given where following it was tried: it is followed here once more, by hand, and the collective is gone."""

import re

import numpy as np
import pytest

import xlab
import xlab.numpy as jnp
from tests.observe import sample_programs as programs
from xlab import lax, observe
from xlab.observe.records.transfers import sentences
from xlab.sharding import NamedSharding
from xlab.sharding import PartitionSpec as P


def ones(*shape, spec):
    return xlab.device_put(np.ones(shape, np.float32), NamedSharding(programs.mesh(), P(*spec)))


ADVISED = {
    "an operand of a product": (lambda x, w: x @ w, (ones(16, 32, spec=("data", "model")), ones(32, 64, spec=(None, "model")))),
    "both operands of a sum of parts": (lambda x, w: x @ w, (ones(16, 32, spec=("data", "model")), ones(32, 64, spec=("model", None)))),
    "one that lies like an argument": (lambda x: xlab.nn.softmax(x, -1), (ones(16, 32, spec=("data", "model")),)),
    "operands that are joined": (lambda x, y: jnp.concatenate([x, y], 0), (ones(16, 32, spec=("data", None)), ones(16, 32, spec=(None, "model")))),
    "what is laid out anew": (lambda x: x.reshape(-1), (ones(16, 32, spec=("data", "model")),)),
    "what a part is read of": (lambda x: lax.dynamic_slice(x, (3, 0), (4, 32)), (ones(16, 32, spec=("data", None)),)),
    "what is sorted": (lambda x: jnp.sort(x, 0), (ones(16, 32, spec=("data", None)),)),
    "what is reversed": (lambda x: jnp.flip(x, 0), (ones(16, 32, spec=("data", None)),)),
    "a maximum": (lambda x: x.max(1), (ones(16, 32, spec=("data", "model")),)),
    "what an algorithm needs whole": (lambda x: jnp.linalg.qr(x), (ones(16, 16, spec=("data", None)),)),
}  # fmt: skip


def follow(fix, args, names):
    """The arguments as the advice says, read off its words."""
    placed = dict(zip(names, args))
    for name, spec in re.findall(r"`([^`]+)` the sharding (P\([^`]*?\))(?= and `| where)", fix):
        placed[name] = xlab.device_put(
            placed[name], NamedSharding(programs.mesh(), eval(spec, {"P": P}))
        )
    return [placed[name] for name in names]


@pytest.mark.parametrize("kind", ADVISED)
def test_following_the_advice_takes_the_collective_away(kind):
    f, args = ADVISED[kind]
    names = f.__code__.co_varnames[: len(args)]
    before = [t for t in observe.transfers(f, *args) if t.instruction]
    advised = [t for t in before if t.tried]
    assert advised, "there is advice that was tried"
    for t in advised:
        after = [
            x for x in observe.transfers(f, *follow(t.fix, args, names), tries=0) if x.instruction
        ]

        def alike(found, t=t):
            return sum((x.kind, x.equation, x.axes) == (t.kind, t.equation, t.axes) for x in found)

        assert alike(after) < alike(before), (t.fix, after)
        assert sum(x.sent_in_run for x in after) < sum(x.sent_in_run for x in before)
        old = {(x.kind, x.equation, x.axes) for x in before}
        assert all(
            x.sent_in_run < t.sent_in_run for x in after if (x.kind, x.equation, x.axes) not in old
        )
        assert sentences(t.reason, t.fix, t.tried).count("Remove it: ") == 1


APART = {
    "transforms of split rows": (lambda x: jnp.fft.fft(x), ("data", None), "fft"),
    "transforms along what is split": (lambda x: jnp.fft.fft(x), (None, "data"), "fft"),
    "transforms of what is computed": (lambda x: jnp.fft.fft(jnp.tanh(x * 2).T), (None, "data"), "fft"),
}  # fmt: skip


@pytest.mark.parametrize("kind", APART)
def test_what_works_row_by_row_is_advised_to_run_on_the_rows_of_each_device(kind):
    """The partitioner carries these out on the whole array wherever it lies: only a `shard_map` keeps the rows apart."""
    f, spec, what = APART[kind]
    x = ones(16, 32, spec=spec)
    (t,) = [t for t in observe.transfers(f, x) if f"{what} (line" in t.reason]
    assert t.tried and f"call {what} (line" in t.fix and t.kind == "all_gather"
    lies = eval(re.search(r"in_specs=(P\([^`]*?\)), out_specs", t.fix)[1], {"P": P})
    apart = xlab.shard_map(jnp.fft.fft, mesh=programs.mesh(), in_specs=lies, out_specs=lies)
    followed = {"transforms of what is computed": lambda x: apart(jnp.tanh(x * 2).T)}.get(
        kind, apart
    )
    after = [x for x in observe.transfers(followed, x, tries=0) if x.instruction]
    assert sum(x.sent_in_run for x in after) < t.sent_in_run and all(
        x.kind != "all_gather" for x in after
    )


@pytest.mark.parametrize("name", ["argsort", "sort", "fft", "top_k"])
def test_arrays_of_one_dimension_are_not_told_to_split_another(name):
    f = {
        "argsort": jnp.argsort,
        "sort": jnp.sort,
        "fft": jnp.fft.fft,
        "top_k": lambda x: lax.top_k(x, 3),
    }[name]
    found = observe.transfers(lambda x: f(x), ones(64, spec=("data",)))
    assert found and not any("another dimension" in t.fix for t in found)
    assert all(t.tried for t in found if t.fix), "what is offered was compiled"


def test_each_axis_of_weights_that_a_loop_reads_has_its_own_cause():
    ws, x = ones(4, 64, 64, spec=(None, "data", "model")), ones(16, 64, spec=("data", None))

    def layers(ws, x):
        def layer(h, w):
            return jnp.tanh(h @ w), None

        return lax.scan(layer, x, ws)[0]

    along = {t.axes: t for t in observe.transfers(layers, ws, x)}
    assert set(along) == {("data",), ("model",)}
    assert along["model",].reason.startswith("`h` is f32[16@data,64@model]")
    assert "a row of `ws` f32[64@data,64@model] that is split over data" in along["data",].reason
    assert not any("`x`" in t.reason + t.fix for t in along.values()), (
        "`x` is split over neither as it is moved"
    )


def test_an_out_sharding_that_was_asked_for_can_be_left_to_the_compiler():
    f = xlab.jit(lambda x: x * 2, out_shardings=NamedSharding(programs.mesh(), P(None, "model")))
    x = ones(16, 32, spec=("data", None))
    (t,) = observe.transfers(f, x)
    assert (
        t.tried
        and t.fix == "leave this result's out_sharding to the compiler"
        and "is asked for as f32[16,32@model]" in t.reason
    )
    assert observe.transfers(lambda x: x * 2, x) == ()


def mlp(p, x):
    return jnp.tanh(x @ p["up"]) @ p["down"]


def loss(p, x):
    return (mlp(p, x) ** 2).mean()


def test_gradient_synchronization_is_named_and_nobody_is_told_to_stop_it():
    p = {"up": ones(32, 64, spec=(None, None)), "down": ones(64, 32, spec=(None, None))}
    (t,) = observe.transfers(xlab.grad(loss), p, ones(16, 32, spec=("data", None)))
    assert (
        t.reason.startswith(
            "2 values at once: gradient synchronization: dot_general (transpose of line"
        )
        and not t.fix
    )


def test_only_the_sum_of_gradients_is_called_so():
    p = {"up": ones(32, 64, spec=(None, "model")), "down": ones(64, 32, spec=("model", None))}
    found = observe.transfers(xlab.grad(loss), p, ones(16, 32, spec=("data", None)))
    assert [("gradient synchronization" in t.reason, t.axes) for t in found] == [
        (False, ("model",)),
        (True, ("data",)),
    ]
    assert not any("`x` the sharding P(None" in t.fix for t in found)


def test_the_gradient_of_data_that_met_a_split_weight_is_no_gradient_of_a_parameter():
    """Summed over the axis of the weight, it synchronizes nothing, whatever is differentiated and although all shapes are alike."""
    w, x = ones(16, 16, spec=(None, "model")), ones(16, 16, spec=("data", None))

    def loss(w, x):
        return jnp.sum(jnp.tanh(x * 2 @ w) ** 2)

    found = observe.transfers(xlab.grad(loss, (0, 1)), w, x)
    assert {t.axes: "gradient synchronization" in t.reason for t in found} == {
        ("model",): False,
        ("data",): True,
    }
    report = observe.findings(xlab.grad(loss, (0, 1)), w, x)
    assert {p.axes: p.name for p in report.patterns} == {
        ("model",): "column-parallel product, backward",
        ("data",): "data-parallel gradient sum",
    }


def test_gradients_of_layers_in_a_scan_are_those_of_parameters():
    ws, x = ones(3, 16, 16, spec=(None, None, None)), ones(16, 16, spec=("data", None))

    def loss(ws, x):
        return jnp.sum(lax.scan(lambda h, w: (jnp.tanh(h @ w), None), x, ws)[0])

    found = observe.findings(xlab.grad(loss), ws, x)
    assert [p.name for p in found.patterns] == ["data-parallel gradient sum"]


@pytest.mark.parametrize(
    ("down", "spec"), [(("data", None), ("data", None)), (("model", None), ("data", None))]
)
def test_no_advice_makes_every_device_compute_the_whole_batch(down, spec):
    p = {"up": ones(32, 64, spec=("data", None)), "down": ones(64, 32, spec=down)}
    for t in observe.transfers(xlab.grad(loss), p, ones(16, 32, spec=spec)):
        assert "`x` the sharding P(None, None)" not in t.fix


WITHOUT_DECISION = {
    "roll": (lambda x: jnp.roll(x, 1, 0), "concatenate"),
    "flip": (lambda x: jnp.flip(x, 0), "rev"),
    "top_k": (lambda x: lax.top_k(x.T, 3), "top_k"),
    "conv": (
        lambda x: lax.conv_general_dilated(
            x.reshape(1, 16, 32, 1),
            np.ones((3, 3, 1, 1), np.float32),
            (1, 1),
            "SAME",
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        ),
        "conv_general_dilated",
    ),
    "scan of a sum": (lambda x: lax.associative_scan(jnp.add, x), "slice"),
    "qr": (lambda x: jnp.linalg.qr(x), "qr"),
    "solve": (lambda x: jnp.linalg.solve(x[:, :16] + np.eye(16, dtype=np.float32), x), "lu"),
}


@pytest.mark.parametrize("name", WITHOUT_DECISION)
def test_collectives_that_no_decision_lists_name_their_operation_and_line(name):
    f, what = WITHOUT_DECISION[name]
    found = observe.transfers(f, ones(16, 32, spec=("data", None)), tries=0)
    assert found and all("gave no location" not in t.reason for t in found)
    assert any(t.reason.startswith(f"{what} (line") for t in found) and all(t.axes for t in found)


def test_types_in_reasons_are_those_of_the_values():
    x = ones(16, 32, spec=("data", "model"))
    assert all(
        "bool" not in t.reason
        for t in observe.transfers(lambda x: jnp.where(x > 0, x, 0.0).sum(), x)
    )
    found = observe.transfers(lambda x: jnp.fft.fft(x), x)
    assert (
        found
        and all("<" not in t.reason + t.operand for t in found)
        and any("c64[16@data,32@model]" in t.reason for t in found)
    )
    assert not any("is asked for" in t.reason for t in found), "nobody asked"


def test_variables_without_a_name_are_not_called_by_letters():
    for f, args in ADVISED.values():
        names = set(f.__code__.co_varnames)
        for t in observe.transfers(f, *args, tries=0):
            assert set(re.findall(r"`([^`]+)`", t.reason + t.fix)) <= names


def test_more_tries_than_allowed_leave_advice_that_says_so():
    f, args = ADVISED["an operand of a product"]
    (t,) = observe.transfers(f, *args, tries=0)
    assert t.fix and not t.tried and "not tried" in observe.text(t)


def test_what_explicit_axes_ask_for_is_the_users():
    mesh = xlab.make_mesh((4, 2), ("data", "model"))
    with xlab.set_mesh(mesh):
        x, w = (
            xlab.device_put(np.ones((16, 16), np.float32), NamedSharding(mesh, P(*spec)))
            for spec in (("data", "model"), ("model", None))
        )
        found = observe.transfers(lambda x, w: jnp.matmul(x, w, out_sharding=P("data", None)), x, w)
    assert [(t.kind, t.origin, t.call) for t in found] == [
        ("all_reduce", "user", "dot_general")
    ] and "out_sharding asks for it" in found[0].reason


REASONS = {
    "what comes in its place": (
        lambda x, w: x @ w,
        (ones(16, 32, spec=("data", "model")), ones(32, 4, spec=(None, "model"))),
        [r"give `w` the sharding P\('model', None\) where it is made \(all_reduce of 64 B sent per device takes its place\)"],
    ),
    "a result that nobody asked for": (
        lambda x, y: x + y,
        (ones(16, 32, spec=("data", None)), ones(16, 32, spec=("model", None))),
        [
            r"the result of add .* is f32\[16@data,32\], the result lies as f32\[16,32\]: the compiler chose it, no out_sharding did",
            r"`y` is f32\[16@model,32\], add .* needs f32\[16@data,32\]; every device rebuilds the whole array",
        ],
    ),
    "what is sorted": (
        lambda x: lax.sort(x, dimension=0),
        (ones(16, 32, spec=("data", None)),),
        [
            r"a value inside sort (.*) is i32\[16@data,32\], a later step of it works on i32\[16,32@data\]",
            r"a value inside sort (.*) is i32\[16,32@data\], a later step of it works on i32\[16@data,32\]",
        ],
    ),
    "the backward pass of a product that is split": (
        xlab.grad(loss, (0, 1)),
        ({"up": ones(32, 64, spec=(None, "model")), "down": ones(64, 32, spec=("model", None))}, ones(16, 32, spec=("data", None))),
        [
            r"^dot_general \(line \d+\) combines .* `p\['down'\]` f32\[64@model,32\]",
            r"gradient synchronization",
            r"^dot_general \(transpose of line \d+\) combines .* `p\['up'\]` f32\[32,64@model\]",
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REASONS)
def test_reasons_in_words(kind):
    f, args, words = REASONS[kind]
    found = observe.transfers(f, *args)
    assert len(found) == len(words)
    for t, said in zip(found, words):
        assert re.search(said, f"{t.reason}; {t.fix}"), f"{t.reason}; {t.fix}"
        assert "is asked for" not in t.reason, "nobody asked"
