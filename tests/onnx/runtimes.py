#!/usr/bin/env python3
"""runtimes.py - nodes with drawn attributes and shapes, against onnxruntime and the reference evaluator of the onnx package.

    runtimes.py [--seed N] [--rounds N] [--only REGEX]      needs onnx, onnxruntime, and weft

The operators that have many attributes: attention, recurrent layers, transposed convolutions, pools, resizing, GridSample, Einsum. Each result must
agree with one of the two that can compute it; where these differ, the model counts as such. It may be refused, with a reason that is counted.
"""
import argparse
import collections
import os
import re
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator
import weft
from batches import Draw, imported

BATCH = 2
onnxruntime.set_default_logger_severity(4)


def numbers(d, *shape):
    return d.const(d.chance.standard_normal(shape) * 0.5, np.float32)


def attention(d):
    d.opset = 23
    heads, groups, t, past, k = d.upto(1, 2), d.pick(1, 1, 2), d.upto(1, 5), d.pick(0, 0, 3), d.pick(4, 8)
    v, s = d.pick(k, 6), d.upto(1, 6)
    attributes = {"is_causal": d.pick(0, 1)}
    if d.pick(0, 1):
        attributes["scale"] = d.pick(0.3, 1.0)
    if d.pick(0, 0, 1):
        attributes["softcap"] = 2.0
    if d.pick(0, 1):
        args = [d.x("N", heads * groups, t, k), d.x("N", heads, s, k, name="k"), d.x("N", heads, s, v, name="v")]
    else:
        args = [d.x("N", t, heads * groups * k), d.x("N", s, heads * k, name="k"), d.x("N", s, heads * v, name="v")]
        attributes |= {"q_num_heads": heads * groups, "kv_num_heads": heads}
    all_keys = s + past
    mask = d.pick("", "", "float", "bool")
    shape = d.pick((t, all_keys), ("N", 1, t, all_keys), (1, heads * groups, t, all_keys), ("N", heads * groups, t, all_keys))
    if mask == "float":
        args.append(d.x(*shape, name="mask"))
    elif mask == "bool":
        args.append(d.node("Less", [d.x(*shape, name="mask"), d.const(1.2, np.float32)]))
    if past:
        args += [""] * (4 - len(args)) + [d.x("N", heads, past, k, name="past_k"), d.x("N", heads, past, v, name="past_v")]
    results = 4 if past and d.pick(0, 1) else 3 if past else 1
    if results == 4:
        attributes["qk_matmul_output_mode"] = d.upto(0, 3)
    d.node("Attention", args, n=results, **attributes)


def recurrent(d, op, gates, activations):
    directions, hidden, size, steps = d.pick(1, 2), d.upto(1, 5), d.upto(1, 4), d.upto(1, 5)
    attributes = {"hidden_size": hidden, "direction": "bidirectional" if directions == 2 else d.pick("forward", "reverse")}
    layout = d.pick(0, 0, 1)
    x = d.x("N", steps, size)
    if not layout:
        x = d.node("Transpose", [x], perm=[1, 0, 2])
    else:
        attributes["layout"] = 1
    args = [x, numbers(d, directions, gates * hidden, size), numbers(d, directions, gates * hidden, hidden)]
    has_states, lens = d.pick(0, 1), d.upto(0, 19) == 0
    bias = numbers(d, directions, 2 * gates * hidden) if d.pick(0, 1) or lens or has_states else ""
    args.append(bias)
    args.append(d.node("Cast", [d.x("N", dtype=np.int64, name="lens", below=(1, steps + 1))], to=6) if lens else "")
    state = lambda name: d.x("N", directions, hidden, name=name) if layout else d.node("Transpose", [d.x("N", directions, hidden, name=name)], perm=[1, 0, 2])
    for name in ("h", "c")[:2 if op == "LSTM" else 1]:
        args.append(state(name) if has_states else "")
    if op == "LSTM" and d.pick(0, 0, 1):
        args.append(numbers(d, directions, 3 * hidden))
    if d.upto(0, 19) == 0:
        attributes["clip"] = 0.7
    if activations and d.upto(0, 9) == 0:
        attributes["activations"] = [d.pick(*of) for of in activations] * directions
    if op == "GRU":
        attributes["linear_before_reset"] = d.pick(0, 1)
    if op == "LSTM" and d.upto(0, 19) == 0:
        attributes["input_forget"] = 1
    while not args[-1]:
        args.pop()
    d.node(op, args, n=3 if op == "LSTM" else 2, **attributes)


def lstm(d):
    recurrent(d, "LSTM", 4, [("Sigmoid", "HardSigmoid"), ("Tanh", "Relu"), ("Tanh", "Softsign")])


def gru(d):
    recurrent(d, "GRU", 3, [("Sigmoid", "HardSigmoid"), ("Tanh", "Relu")])


def rnn(d):
    recurrent(d, "RNN", 1, [("Tanh", "Relu", "Relu", "Sigmoid")])


def windows(d, n, kernels=3):
    kernel, stride, dilation = [d.upto(1, kernels) for _ in range(n)], [d.upto(1, 3) for _ in range(n)], [d.pick(1, 1, 2) for _ in range(n)]
    attributes = {"strides": stride, "dilations": dilation}
    auto = d.pick("NOTSET", "NOTSET", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")
    if auto != "NOTSET":
        attributes |= {"auto_pad": auto}
        if auto != "VALID":  # the two differ about windows that leave elements out
            attributes |= {"dilations": [1] * n, "strides": [min(s, k) for s, k in zip(stride, kernel)]}
    elif d.pick(0, 1):
        attributes["pads"] = [d.upto(0, k - 1) for k in kernel * 2]
    return kernel, attributes


def conv_transposes(d):
    n, groups = d.pick(1, 2, 2, 3), d.pick(1, 1, 2)
    kernel, attributes = windows(d, n)
    channels, out = groups * d.upto(1, 2), d.upto(1, 3)
    if d.pick(0, 0, 1):
        attributes["output_padding"] = [d.upto(0, max(s, di) - 1) for s, di in zip(attributes["strides"], attributes["dilations"])]
    args = [d.x("N", channels, *(d.upto(2, 5) for _ in range(n))), numbers(d, channels, out, *kernel)]
    if d.pick(0, 1):
        args.append(numbers(d, out * groups))
    d.node("ConvTranspose", args, group=groups, kernel_shape=kernel, **attributes)


def convs(d):
    n, groups = d.pick(1, 2, 2, 3), d.pick(1, 1, 2)
    kernel, attributes = windows(d, n)
    out = groups * d.upto(1, 2)
    args = [d.x("N", groups * 2, *(d.upto(5, 8) for _ in range(n))), numbers(d, out, 2, *kernel)]
    if d.pick(0, 1):
        args.append(numbers(d, out))
    d.node("Conv", args, group=groups, kernel_shape=kernel, **attributes)


def pools(d):
    d.opset = 22
    op, n = d.pick("MaxPool", "AveragePool", "LpPool"), d.pick(1, 2, 2, 3)
    kernel, attributes = windows(d, n)
    attributes["ceil_mode"] = d.pick(0, 0, 1) if "auto_pad" not in attributes else 0
    if op == "AveragePool":
        attributes["count_include_pad"] = d.pick(0, 1)
    if op == "LpPool":
        attributes["p"] = d.pick(1, 2, 3)
    results = 2 if op == "MaxPool" and d.pick(0, 0, 1) else 1
    d.node(op, [d.x("N", 2, *(d.upto(5, 9) for _ in range(n)))], n=results, kernel_shape=kernel, **attributes)


def resizes(d):
    mode = d.pick("nearest", "linear", "cubic")
    places = d.pick("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")
    attributes = {"mode": mode, "coordinate_transformation_mode": places}
    if mode == "nearest":
        attributes["nearest_mode"] = d.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    if mode == "cubic":
        attributes |= {"cubic_coeff_a": d.pick(-0.75, -0.5), "exclude_outside": d.pick(0, 1)}
    shape = (d.upto(4, 9), d.upto(4, 9))
    x = d.x("N", 2, *shape)
    if d.pick(0, 1):
        d.node("Resize", [x, "", "", d.const([d.upto(2, 14), d.upto(2, 14)])], axes=[2, 3], **attributes)
    else:
        d.node("Resize", [x, "", d.const([1, 1] + [d.pick(0.5, 0.75, 1.25, 2, 3) for _ in shape], np.float32)], **attributes)


def einsums(d):
    """The batch is letter n of the first operand, and may be of the others and of the result."""
    sizes = {a: d.upto(1, 4) for a in "abcd"}
    letters = ["".join(d.chance.permutation(list("abcd"))[: d.upto(1, 3)]) for _ in range(d.upto(1, 3))]
    letters[0] = "n" + letters[0]
    letters[1:] = ["n" * d.pick(0, 1) + text for text in letters[1:]]
    if d.upto(0, 4) == 0:
        letters[0] += letters[0][-1]  # a diagonal
    used = sorted(set("".join(letters)) - {"n"})
    result = "n" * d.pick(0, 1, 1) + "".join(d.chance.permutation(used)[: d.upto(0, min(3, len(used)))])
    dots = [d.upto(1, 3) for _ in range(d.pick(0, 0, 0, 1, 2))]  # axes that "..." stands for
    args = [d.x(*("N" if a == "n" else sizes[a] for a in text), *dots, name=f"x{i}") for i, text in enumerate(letters)]
    if dots:
        letters, result = [text + "..." for text in letters], d.pick("...", " ... ") + result
    equation = d.pick(",", " , ").join(letters) + ("->" + result if d.pick(0, 1, 1, 1) else "")
    d.node("Einsum", args, equation=equation)


def grid_samples(d):
    n = d.pick(2, 2, 3)
    d.node("GridSample", [d.x("N", 2, *(d.upto(2, 6) for _ in range(n))), d.x("N", *(d.upto(1, 4) for _ in range(n)), n, name="grid")],
           mode=d.pick("linear", "nearest", "cubic") if n == 2 else d.pick("linear", "nearest"), padding_mode=d.pick("zeros", "border", "reflection"), align_corners=d.pick(0, 1))


KINDS = [attention, lstm, gru, rnn, convs, conv_transposes, pools, resizes, einsums, grid_samples]


def of_onnxruntime(model, feeds):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def of_reference(model, feeds):
    return ReferenceEvaluator(model).run(None, feeds)


def computed(by, model, feeds):
    """The results; None: it cannot."""
    try:
        with np.errstate(all="ignore"):
            return [np.asarray(a) for a in by(model, feeds)]
    except Exception:  # of any kind, by what others wrote
        return None


def of_weft(path, feeds):
    model, graph, weights = imported(path)
    store = model.compile(threads=1, batch=BATCH).store()
    if weights:
        store.load(weights)
    with store.session() as session:
        found = session.run("g", **{n: np.ascontiguousarray(a) for n, a in feeds.items()})
        return [np.array(a) for a in found.values()]


def differs(a, b):
    """How a result differs; "" where it does not."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{a.dtype}{a.shape} for {b.dtype}{b.shape}"
    if not np.allclose(a, b, rtol=1e-4, atol=2e-5, equal_nan=True):
        return f"differs by {np.nanmax(np.abs(a.astype(float) - b))}"
    return ""


def judge(d, path):
    """("agrees" | "wrong" | ..., why)"""
    model = d.model()
    feeds = d.feeds(BATCH)
    others = {by.__name__[3:]: made for by in (of_onnxruntime, of_reference) if (made := computed(by, model, feeds)) is not None}
    if not others:
        return "not run", "by neither"
    path.write_bytes(model.SerializeToString())
    try:
        found = of_weft(path, feeds)
    except weft.Error as error:
        return "refused", re.sub(r"^.*m.onnx: |\d+", "_", str(error))[:140]
    alone = set()
    for i, result in enumerate(found):
        why = {name: said for name, made in others.items() if (said := differs(result, made[i]))}
        if len(why) == len(others):
            return "wrong", f"result {i}: {why}"
        alone |= set(why)
    return ("others differ", f"from {' and '.join(sorted(alone))}") if alone else ("agrees", "")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--rounds", type=int, default=200)
    options.add_argument("--only", default="")
    o = options.parse_args()
    counts, reasons = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            if not re.search(o.only, kind.__name__):
                continue
            for i in range(o.rounds):
                d = Draw(np.random.default_rng([o.seed, KINDS.index(kind), i]))
                kind(d)
                verdict, why = judge(d, Path(folder) / "m.onnx")
                counts[verdict] += 1
                if verdict == "wrong":
                    print(f"{kind.__name__} {i}: {why}\n{onnx.printer.to_text(d.model())}", flush=True)
                elif why:
                    reasons[f"{kind.__name__}: {verdict}: {why}"] += 1
    for reason, n in reasons.most_common():
        print(f"{n:5} {reason}")
    print(", ".join(f"{n} {v}" for v, n in counts.items()))
    return 1 if counts["wrong"] or not counts["agrees"] else 0


if __name__ == "__main__":
    sys.exit(main())
