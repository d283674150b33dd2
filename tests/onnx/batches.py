#!/usr/bin/env python3
"""batches.py - nodes whose first axis is the batch, with attributes drawn by chance, against the reference evaluator of the onnx package.

    batches.py [--seed N] [--rounds N] [--only REGEX]

Each model is imported once and run with two batches. The node cases (cases.py) have one shape each, and so say nothing about what follows
the batch. A model may be refused, with a reason that is counted; it may not be wrong.
"""
import argparse
import collections
import re
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
import weft

BATCHES = (2, 3)


class Draw:
    """A model of nodes that read x and constants."""

    def __init__(self, chance, opset=20):
        self.chance, self.opset = chance, opset
        self.nodes, self.constants, self.fed = [], {}, {}
        self.expected = None  # of the inputs, where the reference evaluator cannot compute it

    def x(self, *shape, dtype=np.float32, name="x", below=None):
        """An input; "N" is the batch."""
        self.fed[name] = (shape, np.dtype(dtype), below)
        return name

    def const(self, array, dtype=np.int64):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array, dtype)
        return name

    def node(self, op, inputs, n=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(n)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if n == 1 else names

    def pick(self, *of):
        return of[self.chance.integers(len(of))]

    def upto(self, least, most):
        return int(self.chance.integers(least, most + 1))

    def model(self):
        inputs = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(d), ["N" if a == "N" else a for a in s]) for n, (s, d, _) in self.fed.items()]
        outputs = [onnx.ValueInfoProto(name=n) for node in self.nodes[-1:] for n in node.output]
        values = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, values)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)

    def feeds(self, batch):
        made = {}
        for name, (shape, dtype, below) in self.fed.items():
            lengths = [batch if a == "N" else a for a in shape]
            if below is not None:
                made[name] = self.chance.integers(below[0], below[1], lengths).astype(dtype)
            else:
                made[name] = self.chance.standard_normal(lengths).astype(dtype) if dtype.kind == "f" else self.chance.integers(-9, 9, lengths).astype(dtype)
        return made


def slices(d):
    x = d.x("N", 5, 7)
    axes = [a for a in (1, 2) if d.pick(0, 1)] or [d.pick(0, 1, 2)]
    steps = [d.pick(1, 2, -1, -2, 3) for _ in axes]
    low = lambda: d.pick(0, 1, -4, -9, -2**31, -2**63 + 1)
    high = lambda: d.pick(3, 9, -1, -2, 2**31 - 1, 2**63 - 1)
    begins = [low() if step > 0 else high() for step in steps]
    ends = [high() if step > 0 else low() for step in steps]
    d.node("Slice", [x, d.const(begins), d.const(ends), d.const([d.pick(a, a - 3) for a in axes]), d.const(steps)])


def slice_of_batch(d):
    x = d.x("N", 5)
    end = d.node("Slice", [d.node("Shape", [x]), d.const([0]), d.const([1])])
    d.node("Slice", [x, d.const([0]), end, d.const([0])])


def squeezes(d):
    x = d.x("N", 1, 4, 1)
    if d.pick(0, 1):
        x = d.node("Squeeze", [x] + ([d.const(d.pick([1], [-1], [1, 3], [-3]))] if d.pick(0, 1, 1) else []))
    d.node("Unsqueeze", [x, d.const(d.pick([0], [1], [-1], [0, 2], [-2, 1]))])


def expands(d):
    x = d.x("N", 1, 4)
    shape = d.node("Shape", [x])
    batch = d.node("Slice", [shape, d.const([0]), d.const([1])])
    kind = d.pick(0, 1, 2)
    if kind == 0:
        d.node("Expand", [x, d.const(d.pick([1, 3, 4], [3, 1], [2, 1, 3, 4], [1]))])
    elif kind == 1:
        d.node("Expand", [d.node("Slice", [x, d.const([0]), d.const([1]), d.const([1])]), d.node("Concat", [batch, d.const([3, 4])], axis=0)])
    else:
        row = d.const(d.chance.standard_normal((1, 1, 4)), np.float32)
        d.node("Expand", [row, d.node("Concat", [batch, d.const([2, 4])], axis=0)])


def tiles(d):
    if d.pick(0, 1):
        d.node("Tile", [d.x("N", 3, 2), d.const([1, d.upto(1, 3), d.upto(1, 3)])])
    else:
        x = d.x("N", 3)
        d.node("Add", [x, d.node("Tile", [d.const(d.chance.standard_normal((1, 3)), np.float32), d.node("Concat", [d.node("Shape", [x], end=1), d.const([1])], axis=0)])])


def pads(d):
    mode = d.pick("constant", "edge", "reflect", "wrap")
    shape = d.pick(("N", 5), ("N", 3, 5), ("N", 2, 4, 5), ("N", 2, 3, 4, 5))
    dtype = d.pick(np.float32, np.float64, np.int64) if mode != "constant" else np.float32
    x = d.x(*shape, dtype=dtype)
    n = len(shape) - 1
    pad = lambda: [d.upto(-1, 2 if mode == "reflect" else 3) if shape[i + 1] > 3 else d.upto(0, 1) for i in range(n)]
    before, after = [0] + pad(), [0] + pad()
    args = [x, d.const(before + after)]
    if mode == "constant":
        args.append(d.const(1.5, np.float32))
    d.node("Pad", args, mode=mode)
    d.expected = lambda feeds: [padded(feeds["x"], before, after, mode, **({"constant_values": 1.5} if mode == "constant" else {}))]


def padded(x, before, after, mode, **options):
    """Negative numbers cut first."""
    x = x[tuple(slice(max(-b, 0), n + min(a, 0)) for b, a, n in zip(before, after, x.shape))]
    kept = [(max(b, 0), max(a, 0)) for b, a in zip(before, after)]
    return np.pad(x, kept, mode=mode, **options)


def pads_with_value(d):
    x, value = d.x("N", 3, 4), d.x(1, name="value")
    d.node("Pad", [x, d.const(d.pick([0, 1, 2, 0, 0, 3], [1, 0, 0, 0, 0, 0], [0, 0, -1, 2, 1, 0])), d.node("Squeeze", [value])])
    d.expected = lambda feeds: [padded(feeds["x"], d.constants["c0"][:3], d.constants["c0"][3:], "constant", constant_values=feeds["value"][0])]


def splits(d):
    x = d.x("N", 7, 4)
    if d.pick(0, 1):
        n = d.pick(2, 3)
        d.node("Split", [x], n=n, axis=d.pick(1, -1, 2) if n != 3 else 1, num_outputs=n)
    else:
        d.node("Split", [x, d.const([2, 4, 1])], n=3, axis=1)


def depths(d):
    if d.pick(0, 1):
        d.node("DepthToSpace", [d.x("N", 8, 2, 3)], blocksize=2, mode=d.pick("DCR", "CRD"))
    else:
        d.node("SpaceToDepth", [d.x("N", 3, 4, 6)], blocksize=2)


def reverses(d):
    time, batch = d.pick((0, 1), (1, 0))
    shape = (5, "N", 3) if time == 0 else ("N", 5, 3)
    x, lens = d.x(*shape) if time else d.node("Transpose", [d.x("N", 5, 3)], perm=[1, 0, 2]), d.x("N", dtype=np.int64, name="lens", below=(1, 6))
    d.node("ReverseSequence", [x, lens], time_axis=time, batch_axis=batch)


def crops(d):
    d.node("CenterCropPad", [d.x("N", 5, 6), d.const([d.upto(2, 9), d.upto(2, 9)])], axes=d.pick([1, 2], [-1, 1]))


def col2ims(d):
    d.node("Col2Im", [d.x("N", 8, 9), d.const([4, 5]), d.const([2, 2])], strides=[1, 2], dilations=[2, 1], pads=[0, 1, 1, 0])


def gathers(d):
    axis = d.pick(1, 2, -1)
    n = 5 if axis == 1 else 4
    x = d.x("N", 5, 4)
    kind = d.pick(0, 1, 2)
    if kind == 0:
        ids = d.const(d.chance.integers(-n, n, d.pick((), (3,), (2, 3))))
    elif kind == 1:
        ids = d.x(3, dtype=d.pick(np.int32, np.int64), name="ids", below=(-n, n))
    else:
        return d.node("Gather", [d.const(d.chance.standard_normal((6, 4)), np.float32), d.x("N", 3, dtype=np.int64, name="ids", below=(-6, 6))])
    d.node("Gather", [x, ids], axis=axis)


def gather_elements(d):
    d.node("GatherElements", [d.x("N", 5, 4), d.x("N", 3, 4, dtype=np.int64, name="ids", below=(-5, 5))], axis=1)


def gather_nds(d):
    if d.pick(0, 1):
        d.node("GatherND", [d.x("N", 5, 4), d.x("N", 3, d.pick(1, 2), dtype=np.int64, name="ids", below=(-4, 4))], batch_dims=1)
    else:
        d.node("GatherND", [d.const(d.chance.standard_normal((4, 4, 3)), np.float32), d.x("N", 2, d.pick(1, 2), dtype=np.int64, name="ids", below=(-4, 4))])


def scatter_elements(d):
    reduction = d.pick("none", "add", "mul", "max", "min")
    x, src = d.x("N", 5, 4), d.x("N", 1 if reduction == "none" else 3, 4, name="src")
    d.node("ScatterElements", [x, d.x("N", 1 if reduction == "none" else 3, 4, dtype=np.int64, name="ids", below=(-5, 5)), src], axis=1, reduction=reduction)


def scatter_nds(d):
    reduction = d.pick("add", "mul", "max", "min")
    n = d.pick(1, 2)
    x = d.const(d.chance.standard_normal((4, 5, 3)), np.float32)
    d.node("ScatterND", [x, d.x("N", 2, n, dtype=np.int64, name="ids", below=(-4, 4)), d.x("N", 2, *((5, 3) if n == 1 else (3,)), name="src")], reduction=reduction)


def one_hots(d):
    d.node("OneHot", [d.x("N", 3, dtype=np.int64, name="ids", below=(-4, 4)), d.const(4), d.const([-1, 2.5], np.float32)], axis=d.pick(-1, 0, 1, 2))


def top_ks(d):
    d.node("TopK", [d.x("N", 6, 4), d.const([2])], n=2, axis=d.pick(1, -1), largest=d.pick(0, 1), sorted=1)


def compresses(d):
    d.node("Compress", [d.x("N", 4), d.const([1, 0, 1, 1], bool)], axis=1)


def resizes(d):
    mode = d.pick("nearest", "linear", "cubic")
    shape = d.pick(("N", 3, 7), ("N", 2, 5, 7), ("N", 1, 3, 4, 5)) if mode != "cubic" else ("N", 2, 5, 7)
    attributes = {"mode": mode, "coordinate_transformation_mode": d.pick("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize")}
    if attributes["coordinate_transformation_mode"] == "half_pixel_symmetric":
        shape = shape[:2] + (4, 6)  # no element is in the middle, where the evaluator rounds to either side
    if attributes["coordinate_transformation_mode"] == "pytorch_half_pixel":
        shape = shape[:2] + (5, 7)  # none becomes one element, which the evaluator asks of the length before it is rounded down
    x = d.x(*shape)
    n = len(shape) - 2
    axes = list(range(2, len(shape)))
    roi = ""
    if attributes["coordinate_transformation_mode"] == "tf_crop_and_resize":
        roi = d.const([0.125] * n + [d.pick(0.8125, 1.25)] * n, np.float32)
        attributes["extrapolation_value"] = 7.0
    if mode == "nearest":
        is_symmetric = attributes["coordinate_transformation_mode"] == "half_pixel_symmetric"
        attributes["nearest_mode"] = d.pick("floor", "ceil", *([] if is_symmetric else ["round_prefer_floor", "round_prefer_ceil"]))
    else:
        attributes["antialias"] = d.pick(0, 1)
        attributes["exclude_outside"] = d.pick(0, 1) if mode == "cubic" else 0
    if mode == "cubic":
        attributes["cubic_coeff_a"] = d.pick(-0.75, -0.5)
    if roi or d.pick(0, 1):
        sizes = d.const([d.pick(2, 4, 9, 10, 14) for _ in axes])
        d.node("Resize", [x, roi, "", sizes], axes=axes, keep_aspect_ratio_policy="stretch" if roi else d.pick("stretch", "not_larger", "not_smaller"), **attributes)
    elif d.pick(0, 1):  # scales that f32 and f64 hold: the evaluator divides in f64
        d.node("Resize", [x, "", d.const([d.pick(0.5, 0.75, 1, 2, 1.5, 3, 0.625) for _ in axes], np.float32)], axes=axes, **attributes)
    else:
        d.node("Resize", [x, "", d.const([1, 1] + [d.pick(0.5, 1, 2, 1.75) for _ in axes], np.float32)], **attributes)


def grid_samples(d):
    d.node("GridSample", [d.x("N", 2, 4, 5), d.x("N", 3, 3, 2, name="grid")], mode=d.pick("linear", "nearest", "cubic"), padding_mode=d.pick("zeros", "border", "reflection"), align_corners=d.pick(0, 1))


def rois(d):
    d.node("RoiAlign", [d.x("N", 2, 6, 7), d.const([[0, 0, 5, 4], [-3, 1, 9, 5.5], [2, 2, 2.5, 2.2]], np.float32), d.const([0, 1, 1])], mode=d.pick("avg", "max"),
           coordinate_transformation_mode=d.pick("half_pixel", "output_half_pixel"), output_height=2, output_width=3, sampling_ratio=d.pick(1, 2, 3), spatial_scale=d.pick(1.0, 0.7))


def shapes(d):
    """The batch in and out of another axis."""
    x = d.x("N", 3, 4)
    y = d.node("Reshape", [x, d.const(d.pick([-1, 4], [0, -1], [0, 2, -1]))])
    shape = d.node("Shape", [y])
    last = d.node("Gather", [shape, d.const([-1])])
    d.node("Reshape", [y, d.node("Concat", [d.const([-1]), last], axis=0)])


KINDS = [slices, slice_of_batch, squeezes, expands, tiles, pads, pads_with_value, splits, depths, reverses, crops, col2ims, gathers, gather_elements, gather_nds, scatter_elements,
         scatter_nds, one_hots, top_ks, compresses, resizes, grid_samples, rois, shapes]


def imported(path):
    model = weft.Model("m", batch=BATCHES[0])
    weights = None
    with weft.Onnx(str(path)) as file:
        graph = file.graph(model, "g")
        if model.parameters():
            weights = str(path) + ".safetensors"
            file.weights(weights)
    return model, graph, weights


def check(d, path):
    """Why it is wrong, or ""."""
    onnx_model = d.model()
    path.write_bytes(onnx_model.SerializeToString())
    reference = ReferenceEvaluator(onnx_model)
    expected_of = d.expected or (lambda feeds: reference.run(None, feeds))
    data = {batch: d.feeds(batch) for batch in BATCHES}
    wanted = {batch: expected_of(data[batch]) for batch in BATCHES}
    model, graph, weights = imported(path)
    for batch in BATCHES:
        store = model.compile(threads=1, batch=batch).store()
        if weights:
            store.load(weights)
        with store.session() as session:
            found = session.run("g", **{n: np.ascontiguousarray(a) for n, a in data[batch].items()})
        for name, expected in zip([o.name for o in onnx_model.graph.output], wanted[batch]):
            got = np.asarray(found[name])
            if got.shape != expected.shape or got.dtype != expected.dtype:
                return f"batch {batch}: {got.dtype}{got.shape} for {expected.dtype}{expected.shape}"
            if not np.allclose(got, expected, rtol=1e-4, atol=1e-5, equal_nan=True):
                return f"batch {batch}: differs by {np.nanmax(np.abs(got.astype(float) - expected))}"
    return ""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--rounds", type=int, default=30)
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
                try:
                    why = check(d, Path(folder) / "m.onnx")
                    counts["wrong" if why else "passes"] += 1
                    if why:
                        print(f"{kind.__name__} {i}: {why}\n{onnx.printer.to_text(d.model())}", flush=True)
                except weft.Error as error:
                    counts["refused"] += 1
                    reasons[kind.__name__ + ": " + re.sub(r"^.*m.onnx: |\d+", "_", str(error))[:140]] += 1
                except Exception as error:  # the reference evaluator's
                    counts["reference fails"] += 1
                    reasons[f"{kind.__name__}: the reference evaluator: {type(error).__name__}: {str(error)[:80]}"] += 1
    for reason, n in reasons.most_common():
        print(f"{n:5} {reason}")
    print(", ".join(f"{n} {v}" for v, n in counts.items()))
    return 1 if counts["wrong"] or not counts["passes"] else 0


if __name__ == "__main__":
    sys.exit(main())
