#!/usr/bin/env python3
"""export_ops.py - each op that the exporter knows in a small graph of its own, run by onnxruntime and compared with Weft.

    export_ops.py [--only REGEX]

Compared at the batch of building and at another. Prints what is wrong or refused, what onnxruntime cannot run, and counts; and rows of
exporters_list.h that no graph has reached. Status 1: something is wrong, refused, or not reached.
"""
import argparse
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import onnx
import onnxruntime
import weft
from export import differs, imported, random_state

ROOT = Path(__file__).resolve().parents[2]
B = "batch"
SHARED = (B, 4, 6)
IMPORTED = {"interpolate"}  # ops whose files are imported again


def floats(*shape):
    return ("f32", shape)


def ids(below, *shape):
    return ("i64", shape, below)


def unary(*names, **how):
    return [(n, {"x": floats(*SHARED)}, lambda g, x, n=n: getattr(weft, n)(x, **how)) for n in names]


def binary(*names):
    return [(n, {"x": floats(*SHARED), "y": floats(4, 1)}, lambda g, x, y, n=n: getattr(weft, n)(x, y)) for n in names]


def integers(*names):
    return [(n + " i64", {"x": ids(9, *SHARED), "y": ids(9, *SHARED)}, lambda g, x, y, n=n: getattr(weft, n)(x - 4, y * 2 - 7)) for n in names]


def layer(name, shape, build):
    return (name, {"x": floats(*shape)}, lambda g, x: build(x))


def in_01(name):
    return layer(name, SHARED, lambda x: getattr(weft, name)(x.sigmoid() * 0.9 + 0.05))


def recurrent(name, **how):
    def build(g, x):
        made = getattr(weft, name)(x, name="net", hidden=5, **how)
        return made
    return (f"{name} {how}", {"x": floats(B, 7, 3)}, build)


IMAGE = (B, 4, 9, 10)
CASES = [
    *unary("abs", "square", "exp", "expm1", "tanh", "sigmoid", "relu", "softplus", "gelu", "silu", "mish", "hardswish", "erf", "sin", "cos", "tan", "atan",
           "sinh", "cosh", "asinh", "floor", "ceil", "round", "trunc", "sign", "isnan", "isinf", "neg", "logical_not"),
    *(in_01(n) for n in ("sqrt", "rsqrt", "reciprocal", "log", "log1p", "asin", "acos", "atanh")),
    layer("acosh", SHARED, lambda x: weft.acosh(x.square() + 1.5)), layer("softplus beta", SHARED, lambda x: weft.softplus(x, beta=3, threshold=1)),
    layer("leaky_relu", SHARED, lambda x: weft.leaky_relu(x, 0.2)), layer("elu", SHARED, lambda x: weft.elu(x, 0.7)),
    layer("clamp", SHARED, lambda x: weft.clamp(x, -0.5, 0.25)), layer("gelu_tanh", SHARED, lambda x: weft.gelu_tanh(x)),
    layer("pow", SHARED, lambda x: weft.pow(x.sigmoid(), x)), layer("logsumexp", SHARED, lambda x: weft.logsumexp(x, axes=[1], keep=False)),
    layer("vector_norm", SHARED, lambda x: weft.vector_norm(x, 3, axes=[1])),
    *binary("add", "sub", "mul", "div", "atan2", "maximum", "minimum", "equal", "greater", "not_equal", "greater_equal", "fmod", "remainder",
            "floor_divide", "trunc_divide", "logical_and", "logical_or", "logical_xor"),
    *integers("fmod", "remainder", "floor_divide", "trunc_divide", "bitwise_and", "bitwise_or", "bitwise_xor", "equal", "maximum"),
    ("bitwise_not", {"x": ids(9, *SHARED)}, lambda g, x: weft.bitwise_not(x)),
    ("bitwise bool", {"x": floats(*SHARED)}, lambda g, x: weft.bitwise_and(x > 0, weft.bitwise_not(x > 1))),
    ("cast", {"x": floats(*SHARED)}, lambda g, x: weft.cast(weft.cast(x * 9, "i32"), "f32")),
    ("where", {"x": floats(*SHARED), "y": floats(*SHARED)}, lambda g, x, y: weft.where(x > y, x, y)),
    ("bce_with_logits", {"x": floats(*SHARED), "y": floats(*SHARED)}, lambda g, x, y: weft.bce_with_logits(x, y.sigmoid(), reduction="none")),
    ("cross_entropy", {"x": floats(B, 7), "y": ids(7, B)}, lambda g, x, y: weft.cross_entropy(x, y)),
    *(layer(f"{n} {a} {k}", SHARED, lambda x, n=n, a=a, k=k: getattr(weft, n)(x, axes=a, keep=k)) for n in ("sum", "mean", "amax", "amin", "prod")
      for a, k in ((None, False), ([1], True), ([-1, 1], False))),
    ("sum i64", {"x": ids(9, *SHARED)}, lambda g, x: weft.sum(x, axes=[2])), layer("var", SHARED, lambda x: weft.var(x, axes=[1, 2])),
    layer("argmax", SHARED, lambda x: weft.argmax(x, 1, keep=True)), layer("argmin", SHARED, lambda x: weft.argmin(x, -1, keep=False)),
    layer("cumsum", SHARED, lambda x: weft.cumsum(x, 1)), layer("flip", SHARED, lambda x: weft.flip(x, [0, 2])),
    layer("reshape", SHARED, lambda x: weft.reshape(x, [-1, 6])), layer("reshape batch", SHARED, lambda x: weft.reshape(x, [B, 2, 12])),
    layer("permute", SHARED, lambda x: weft.permute(x, [2, 0, 1])), layer("slice", SHARED, lambda x: x[:, 1:3, ::2]),
    layer("concat", SHARED, lambda x: weft.concat([x, x * 2], 0)), layer("pad", SHARED, lambda x: weft.pad(x, 1, 2, 3)),
    ("broadcast_to", {"x": floats(B, 1, 6)}, lambda g, x: weft.broadcast_to(x, [2, -1, 5, 6])),
    ("arange", {"x": floats(B, 4)}, lambda g, x: x + weft.arange(g, "f32", 0.5, 3, 0.7)),
    ("full", {"x": floats(B, 4)}, lambda g, x: weft.full(g, "f32", [B, 4], 3.5) + x) if hasattr(weft, "full") else None,
    ("constant", {"x": floats(B, 4)}, lambda g, x: weft.concat([weft.constant(g, "f32", [3, 4], 2), x], 0)),
    ("constant_tensor", {"x": floats(B, 4)}, lambda g, x: x + g.tensor(np.arange(4, dtype=np.float32))),
    ("one_hot", {"x": ids(5, B, 3)}, lambda g, x: weft.one_hot(x, 5, "f32")),
    layer("tril", (B, 5, 5), lambda x: weft.tril(x)), layer("topk", SHARED, lambda x: weft.topk(x, 2, -1)), layer("sort", SHARED, lambda x: weft.sort(x, 1)),
    layer("sort down", SHARED, lambda x: weft.sort(x, 0, descending=True)),
    layer("argsort", SHARED, lambda x: weft.argsort(x, 1)), layer("topk values", SHARED, lambda x: weft.topk(x, 2, -1)[0]),
    layer("topk places", SHARED, lambda x: weft.topk(x, 2, -1)[1]),
    ("gather", {"x": floats(*SHARED), "i": ids(4, B, 3, 6)}, lambda g, x, i: weft.gather(x, 1, i)),
    ("take_along", {"x": floats(*SHARED), "i": ids(4, 1, 3, 6)}, lambda g, x, i: weft.take_along_axis(x, i, 1)) if hasattr(weft, "take_along_axis") else None,
    ("index_select", {"x": floats(*SHARED), "i": ids(4, 3)}, lambda g, x, i: weft.index_select(x, 1, i)),
    ("scatter", {"x": floats(*SHARED), "i": ids(1, B, 1, 6), "s": floats(B, 1, 6)}, lambda g, x, i, s: weft.scatter(x, 1, i, s)),
    ("scatter_add", {"x": floats(*SHARED), "i": ids(4, B, 3, 6), "s": floats(B, 3, 6)}, lambda g, x, i, s: weft.scatter_add(x, 1, i, s)),
    *((f"scatter_reduce {how} {own}", {"x": floats(*SHARED), "i": ids(4, B, 3, 6), "s": floats(B, 3, 6)},
       lambda g, x, i, s, how=how, own=own: weft.scatter_reduce(x, 1, i, s, how, own)) for how in ("prod", "amax", "amin") for own in (True, False)),
    ("index one", {"x": floats(*SHARED), "i": ids(4, 3, 2)}, lambda g, x, i: weft.index(x, [None, i])),
    ("index two", {"x": floats(*SHARED), "i": ids(4, 3, 1), "j": ids(6, 2)}, lambda g, x, i, j: weft.index(x, [None, i, j])),
    ("index apart", {"x": floats(5, B, 6), "i": ids(5, 3), "j": ids(6, 3)}, lambda g, x, i, j: weft.index(x, [i, None, j])),
    ("index_put", {"x": floats(B, 4, 6), "i": ids(4, 1), "j": ids(6, 1), "v": floats(B, 1)}, lambda g, x, i, j, v: weft.index_put(x, [None, i, j], v, True)),
    ("matmul", {"x": floats(B, 4, 6), "y": floats(B, 5, 6)}, lambda g, x, y: weft.matmul(x, y, transpose_b=True)),
    ("matmul a", {"x": floats(B, 4, 6), "y": floats(4, 5)}, lambda g, x, y: weft.matmul(x, y, transpose_a=True)),
    ("einsum", {"x": floats(B, 4, 6), "y": floats(6, 5)}, lambda g, x, y: weft.einsum("bij,jk->bki", [x, y])) if hasattr(weft, "einsum") else None,
    layer("linear", SHARED, lambda x: x.linear(3, "fc")), layer("linear 2", (B, 6), lambda x: x.linear(3, "fc")),
    layer("conv2d", IMAGE, lambda x: weft.conv2d(x, "c", out=6, kernel=(3, 2), stride=(2, 1), pad=(1, 2), groups=2, dilation=(1, 2))),
    layer("conv1d", (B, 4, 9), lambda x: weft.conv1d(x, "c", out=6, kernel=3)), layer("conv3d", (B, 2, 5, 6, 7), lambda x: weft.conv3d(x, "c", out=4, kernel=3, pad=1)),
    layer("conv_transpose2d", IMAGE, lambda x: weft.conv_transpose2d(x, "c", out=6, kernel=4, stride=3, pad=1, output_padding=1, groups=2)),
    layer("conv_transpose3d", (B, 2, 3, 4, 5), lambda x: weft.conv_transpose3d(x, "c", out=4, kernel=3, stride=2)),
    *(layer(f"max_pool2d {how}", IMAGE, lambda x, how=how: weft.max_pool2d(x, **how)) for how in
      ({"kernel": 2}, {"kernel": 3, "stride": 2, "pad": 1}, {"kernel": 3, "stride": 2, "ceil_mode": True}, {"kernel": 2, "stride": 3, "pad": 1, "ceil_mode": True, "dilation": 2})),
    *(layer(f"avg_pool2d {how}", IMAGE, lambda x, how=how: weft.avg_pool2d(x, **how)) for how in
      ({"kernel": 2}, {"kernel": 3, "stride": 2, "pad": 1}, {"kernel": 3, "stride": 2, "pad": 1, "exclude_pad": True}, {"kernel": 3, "stride": 2, "pad": 1, "ceil_mode": True},
       {"kernel": 3, "stride": 2, "pad": 1, "ceil_mode": True, "divisor": 5}, {"kernel": 2, "stride": 3, "exclude_pad": True, "ceil_mode": True, "pad": 1})),
    layer("adaptive_avg_pool2d", IMAGE, lambda x: weft.adaptive_avg_pool2d(x, 3, 5)), layer("adaptive uneven", IMAGE, lambda x: weft.adaptive_avg_pool2d(x, 4, 3)),
    layer("adaptive one", IMAGE, lambda x: weft.adaptive_avg_pool2d(x, 1, 1)), layer("adaptive_max_pool2d", IMAGE, lambda x: weft.adaptive_max_pool2d(x, 3, 5)),
    *(layer(f"interpolate {how}", IMAGE, lambda x, how=how: weft.interpolate(x, **how)) for how in
      ({"size": (18, 5), "mode": "nearest"}, {"size": (13, 7), "mode": "nearest_exact"}, {"size": (18, 7), "mode": "bilinear"}, {"scale": (2.5, 1.7), "mode": "bilinear"},
       {"scale": (2.5, 1.75), "mode": "bilinear", "align_corners": True}, {"scale": (0.7, 1.75), "mode": "bicubic", "align_corners": True}, {"scale": (1.3, 1.7), "mode": "nearest"},
       {"scale": (2, 3), "mode": "nearest"}, {"scale": (0.6, 0.6), "mode": "nearest"}, {"scale": (0.6, 2.3), "mode": "nearest_exact"}, {"size": (4, 23), "mode": "nearest"},
       {"size": (18, 7), "mode": "bilinear", "align_corners": True}, {"size": (18, 7), "mode": "bicubic"}, {"size": (5, 4), "mode": "bilinear", "antialias": True}, {"size": (5, 4), "mode": "bicubic", "antialias": True})),
    ("grid_sample", {"x": floats(*IMAGE), "p": floats(B, 3, 5, 2)}, lambda g, x, p: weft.grid_sample(x, p.tanh())),
    layer("unfold", IMAGE, lambda x: weft.unfold(x, [3, 2], stride=2, pad=1)),
    layer("fold", (B, 12, 20), lambda x: weft.fold(x, [8, 10], [2, 2], stride=(2, 2))),
    layer("softmax", SHARED, lambda x: weft.softmax(x, 1)), layer("log_softmax", SHARED, lambda x: weft.log_softmax(x, -1)),
    layer("layer_norm", SHARED, lambda x: weft.layer_norm(x, "n")), layer("rms_norm", SHARED, lambda x: weft.rms_norm(x, "n")),
    layer("group_norm", IMAGE, lambda x: weft.group_norm(x, 2, "n")), layer("instance_norm", IMAGE, lambda x: weft.instance_norm(x, "n")),
    layer("batch_norm", IMAGE, lambda x: weft.batch_norm(x, "n")), layer("batch_norm batch", IMAGE, lambda x: weft.batch_norm(x, "n", no_statistics=True)),
    ("embedding", {"i": ids(9, B, 3)}, lambda g, i: weft.embedding(i, 9, 4, "e")),
    *((f"attention {how}", {"q": floats(B, 4, 5, 8), "k": floats(B, 2, 7, 8), "v": floats(B, 2, 7, 6)}, lambda g, q, k, v, how=how: weft.attention(q, k, v, **how))
      for how in ({}, {"causal": True}, {"causal": True, "window": 2}, {"scale": 0.3, "softcap": 2.0})),
    ("attention mask", {"q": floats(B, 2, 5, 8), "k": floats(B, 2, 7, 8), "m": floats(5, 7)}, lambda g, q, k, m: weft.attention(q, k, k, mask=m)),
    ("attention hidden", {"q": floats(B, 2, 5, 8), "k": floats(B, 2, 7, 8), "m": floats(5, 7)}, lambda g, q, k, m: weft.attention(q, k, k, mask=m > 0.8)),
    *(layer(f"rotary {how}", (B, 2, 5, 8), lambda x, how=how: weft.rotary(x, **how)) for how in ({}, {"interleaved": True}, {"dims": 4, "offset": 3})),
    *(recurrent(n, **how) for n in ("lstm", "gru", "rnn") for how in ({}, {"batch_first": True, "bidirectional": True}, {"layers": 2, "no_bias": True})),
    recurrent("rnn", relu=True),
]


def trained(g, x):
    y = x.linear(3, "fc").sum()
    g.model.minimize(y, optimizer=weft.SGD(0.1))
    return y


# What is refused: the graph's mode, what makes it, and what the error says.
REFUSALS = [
    ("train", trained, "minimize: the graph trains"),
    ("train", lambda g, x: weft.dropout(x, 0.5), "dropout: it draws random numbers"),
    ("eval", lambda g, x: x + weft.random_normal(g, [4, 6]), "random_normal: no two runtimes draw the same numbers"),
    ("eval", lambda g, x: weft.cumprod(x, 1), "cumprod: ONNX has no running product"),
    ("train", lambda g, x: weft.batch_norm(x[:, :, 0], "bn"), "in bn: "),
]


def refusals(folder):
    """Lines about refusals that do not say what they should, or leave a file."""
    for mode, make, says in REFUSALS:
        model = weft.Model("ops", batch=2)
        g = model.graph("g", train=mode == "train")
        make(g, g.input("x", "f32", [B, 4, 6])).output("y")
        store, file = model.compile(threads=1).store(), folder / "refused.onnx"
        try:
            weft.export_onnx(g, file, store)
            yield f"{says}: it is exported"
        except weft.Error as why:
            if says not in str(why) or not str(why).startswith("graph g: ") or "\n" in str(why) or file.exists():
                yield f"{says}: {why}"


def build(case, folder):
    name, inputs, make = case
    model = weft.Model("ops", batch=2)
    g = model.graph("predict")
    values = [g.input(n, how[0], list(how[1])) for n, how in inputs.items()]
    made = make(g, *values)
    for i, value in enumerate(made if isinstance(made, (tuple, list)) else (made,)):
        if value is not None:
            value.output(f"out{i}")
    weft_file = folder / "values.safetensors"
    store = model.compile(threads=1).store(seed=1)
    random_state(store, np.random.default_rng(5))
    store.save(str(weft_file))
    return model, store


def compare(model, store, file, inputs, folder, batch, is_imported):
    random = np.random.default_rng(batch)
    fed = {}
    for n, how in inputs.items():
        shape = [batch if d == B else d for d in how[1]]
        fed[n] = random.standard_normal(shape).astype(np.float32) if how[0] == "f32" else random.integers(0, how[2], shape)
    other = model.compile(batch=batch, threads=1).store()
    other.load(str(folder / "values.safetensors"))
    with other.session() as session:
        expected = session.run("predict", feeds=fed)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    found = dict(zip((o.name for o in session.get_outputs()), session.run(None, fed)))
    if is_imported:
        imported(file, batch, fed, {n: np.asarray(v) for n, v in expected.items()}, folder)
    return next(filter(None, (differs(n, found[n], np.asarray(v)) for n, v in expected.items())), None)


def judge(case, folder):
    model, store = build(case, folder)
    ops = set(re.findall(r"= (\w+)\(", model.text()))
    file = folder / "case.onnx"
    try:
        weft.export_onnx(model.graphs["predict"], file, store)
    except weft.Error as why:
        return "refused", str(why), set()
    try:
        onnx.checker.check_model(str(file), full_check=True)
        for batch in (2, 3):
            why = compare(model, store, file, case[1], folder, batch, ops & IMPORTED)
            if why:
                return "wrong", f"batch {batch}: {why}", ops
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented as why:
        return "not run", str(why).splitlines()[0][:200], ops
    except Exception as why:
        return "wrong", f"{type(why).__name__}: {str(why)[:300]}", ops
    return "agrees", "", ops


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="")
    o = options.parse_args()
    counts, reached = {"agrees": 0, "not run": 0, "refused": 0, "wrong": 0}, set()
    for case in filter(None, CASES):
        if not re.search(o.only, case[0]):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                verdict, why, ops = judge(case, Path(folder))
            except (TypeError, AttributeError, weft.Error) as why_not:
                verdict, why, ops = "wrong", f"the case itself: {why_not}", set()
        counts[verdict] += 1
        reached |= ops
        if verdict != "agrees":
            print(f"{case[0]}: {verdict}: {why}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for line in refusals(Path(folder)):
            print("refusal", line)
            counts["wrong"] += 1
    rows = set(re.findall(r'^(?:SAME|BUILD)\("(\w+)"', (ROOT / "interchange/onnx/exporters/exporters_list.h").read_text(), re.M))
    missing = sorted(rows - reached) if not o.only else []
    print(", ".join(f"{n} {v}" for v, n in counts.items()), f"; rows that no graph reached: {' '.join(missing) or 'none'}")
    return bool(counts["wrong"] or counts["refused"] or missing)


if __name__ == "__main__":
    sys.exit(main())
