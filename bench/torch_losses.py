#!/usr/bin/env python3
"""torch_losses.py - the start of a training as files that Weft and PyTorch both read, and PyTorch's losses from there.

    python torch_losses.py write FOLDER CASE:BATCH... [--steps K] [--seed S] [--small]
    python torch_losses.py run FOLDER CASE:BATCH... [--steps K] [--device cuda|cpu] [--dtypes f32,bf16] [--small]
                                                    [--spoil weight|rate]

FOLDER/CASE gets weights.safetensors with Weft's names, and one .npy for each input; gpu_losses.py adds the latents of
dcgan, which Weft draws itself. Networks, optimizers and steps are those of torch_gpu.py, eager. TWO batches are used in
turn: from the third step on a loss tells whether the updates before it were right. run prints a line of JSON for each
case and dtype, with the loss before each update. --spoil changes what PyTorch begins with or how it learns, so that a
comparison with it must fail: weight makes the last matrix larger by 2%, rate the learning rate.
"""
import argparse
import json
import os
import struct
import sys

import numpy as np
import torch
import torch.nn as nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

import torch_gpu

TWO = 2
SPOILED = 1.02


# ---------------------------------------------------------------------------- the names
# The module of PyTorch -> the scope of Weft, where they differ. gpt2_124m and resnet50 have the same names.
MODULES = {
    "mlp": {"net": {"0": "fc1", "2": "fc2", "4": "fc3"}},
    "dcgan": {"generator": {"1": "up1", "2": "bn1", "4": "up2", "5": "bn2", "7": "up3", "8": "bn3", "10": "up4",
                            "11": "bn4", "13": "up5"},
              "discriminator": {"0": "conv1", "2": "conv2", "3": "bn2", "5": "conv3", "6": "bn3", "8": "conv4",
                                "9": "bn4", "11": "conv5"}},
}
SCOPE = {"gpt2_124m": "gpt.", "resnet50": ""}


def weft_name(case, scope, name):
    """The name of this tensor of a state_dict in Weft's files; None: Weft has it under another name or not at all."""
    if name == "head.weight" or name.endswith("num_batches_tracked"):
        return None                              # the head is wte
    if case in SCOPE:
        return SCOPE[case] + name
    module, _, rest = name.partition(".")
    return f"{scope}.{MODULES[case][scope][module]}.{rest}"


# ---------------------------------------------------------------------------- the files
TYPES = {"F64": (np.dtype("<f8"), torch.float64), "F32": (np.dtype("<f4"), torch.float32)}


def write_safetensors(path, tensors):
    """The length of a JSON header, the header, the numbers: f64 before f32."""
    kinds = {name: kind for kind, (_, dtype) in TYPES.items() for name, t in tensors.items() if t.dtype == dtype}
    header, at = {}, 0
    for name, kind in kinds.items():
        end = at + TYPES[kind][0].itemsize * tensors[name].numel()
        header[name] = {"dtype": kind, "shape": list(tensors[name].shape), "data_offsets": [at, end]}
        at = end
    head = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head)
        for name in kinds:
            f.write(tensors[name].detach().contiguous().numpy().tobytes())


def read_safetensors(path):
    with open(path, "rb") as f:
        length, = struct.unpack("<Q", f.read(8))
        header, data = json.loads(f.read(length)), f.read()

    def tensor(entry):
        begin, end = entry["data_offsets"]
        return torch.from_numpy(np.frombuffer(data[begin:end], TYPES[entry["dtype"]][0]).copy()).reshape(entry["shape"])
    return {name: tensor(entry) for name, entry in header.items()}


def off_default(net):
    """Biases of 0 and norms of 1 would hide a value that is not loaded: they begin a little beside it. A bottleneck
    begins near the identity, or 16 of them would make so large a sum that the first update moves the loss at random."""
    for m in net.modules():
        if isinstance(m, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.uniform_(m.weight, 0.8, 1.2)
        if getattr(m, "bias", None) is not None:
            nn.init.normal_(m.bias, 0.0, 0.02)
    for m in net.modules():
        if isinstance(m, torch_gpu.Bottleneck):
            nn.init.uniform_(m.bn3.weight, 0.1, 0.3)
    return net


# Rates that stand in the file, as base rates that Weft reads with the weights. resnet50's own is for a batch of 256,
# and goes with the batch (Goyal et al. 2017, arXiv 1706.02677, section 2.1): with four images it would end in chaos.
# dcgan's own does at once: rounding moves some numbers over the kink of a ReLU, and Adam's steps are as long for small
# gradients as for large ones.
def rates(case, batch):
    if case == "resnet50":
        return {"optimizer.sgd:all.lr": 0.1 * batch / 256}
    return {f"optimizer.adam:{net}.lr": 2e-5 for net in ("generator", "discriminator")} if case == "dcgan" else {}


# What Weft's graphs take, row by row: two batches of each.
def inputs(case, rows, random, ctx, vocab):
    if case == "mlp":
        return {"image": random.integers(256, size=(rows, 28, 28), dtype=np.uint8),
                "label": random.integers(10, size=rows, dtype=np.uint8)}
    if case == "gpt2_124m":
        text = random.integers(vocab, size=(rows, ctx + 1), dtype=np.int32)
        return {"tokens": text[:, :-1], "target": text[:, 1:]}
    side = {"resnet50": 224, "dcgan": 64}[case]
    image = random.standard_normal((rows, 3, side, side), dtype=np.float32)
    if case == "dcgan":
        return {"image": image.clip(-1, 1)}
    return {"image": image, "label": random.integers(1000, size=rows, dtype=np.int32)}


# ---------------------------------------------------------------------------- a run
class FileRun(torch_gpu.Run):
    """A case of torch_gpu.py that begins with the files of a folder."""

    def __init__(self, args, case, batch, dtype):
        how = argparse.Namespace(device=args.device, dtype=dtype, small=args.small, batch=batch)
        super().__init__(how, case, "eager")
        self.case, self.folder, self.steps, self.spoil = case, os.path.join(args.folder, case), args.steps, args.spoil
        self.dtype = torch.float64 if dtype == "f64" else torch.float32
        self.weights = read_safetensors(os.path.join(self.folder, "weights.safetensors"))
        self.rate = next((float(self.weights[name]) for name in rates(case, batch)), None)

    def network(self, net, scope="net"):
        names = {name: weft_name(self.case, scope, name) for name in net.state_dict()}
        found = {name: self.weights[weft] for name, weft in names.items() if weft}
        if self.spoil == "weight":
            [t for t in found.values() if t.dim() >= 2][-1].mul_(SPOILED)
        rest = set(net.load_state_dict(found, strict=False).missing_keys) - {n for n, weft in names.items() if not weft}
        assert not rest, f"{self.case}: {rest} were not in the file"
        return super().network(net.to(self.dtype), scope)

    def rows(self, name, i):
        """Batch i of an input; floating-point ones in the run's type, and on its device."""
        data = np.load(os.path.join(self.folder, f"{name}.npy"), mmap_mode="r")
        batches = len(data) // self.batch
        t = torch.from_numpy(data[i % batches * self.batch:][:self.batch].copy()).to(self.device)
        return t.to(self.dtype) if t.is_floating_point() else t

    def one(self, i):
        """What the case's step takes; mlp's pixels are normalized as the zoo does it."""
        if self.case == "mlp":
            pixels = self.rows("image", i).to(self.dtype).flatten(1) * (1 / (255 * 0.3530)) - 0.2860 / 0.3530
            return pixels, self.rows("label", i).long()
        if self.case == "gpt2_124m":
            return self.rows("tokens", i).long(), self.rows("target", i).long().flatten()
        image = self.rows("image", i).contiguous(memory_format=torch.channels_last)
        if self.case == "dcgan":
            return image, self.rows("z_d", i), self.rows("z_g", i)
        return image, self.rows("label", i).long()

    def batches(self, _):
        return [self.one(i) for i in range(self.steps)]


def losses(args, case, batch, dtype):
    r = FileRun(args, case, batch, dtype)

    def set_rate(optimizer, *_):
        for group in optimizer.param_groups:
            own = group.setdefault("own_lr", r.rate or group["lr"])
            group["lr"] = own * (SPOILED if r.spoil == "rate" else 1)

    hook = register_optimizer_step_pre_hook(set_rate)
    step = torch_gpu.CASES[case](r)
    found = [[float(v) for v in step(i).reshape(-1)] for i in range(args.steps)]
    hook.remove()
    return found


def run(args):
    failed = 0
    for case, batch in args.cases:
        for dtype in args.dtypes.split(","):
            line = {"case": case, "dtype": dtype, "batch": batch, "device": args.device, "torch": torch.__version__}
            try:
                line["losses"] = losses(args, case, batch, dtype)
            except Exception as e:               # the other runs still count
                line["error"] = f"{type(e).__name__}: {e}"[:300]
            failed += "error" in line
            print(json.dumps(line), flush=True)
    return int(failed > 0)


def write(args):
    for case, batch in args.cases:
        torch.manual_seed(args.seed)
        folder = os.path.join(args.folder, case)
        os.makedirs(folder, exist_ok=True)
        nets = Nets(args, case)
        torch_gpu.CASES[case](nets)
        start = {name: torch.tensor(rate, dtype=torch.float64) for name, rate in rates(case, batch).items()}
        write_safetensors(os.path.join(folder, "weights.safetensors"), {**start, **nets.tensors})
        random = np.random.default_rng(args.seed)
        for name, data in inputs(case, TWO * batch, random, nets.ctx, nets.vocab).items():
            np.save(os.path.join(folder, f"{name}.npy"), np.ascontiguousarray(data))
        print(json.dumps({"case": case, "tensors": len(nets.tensors)}), flush=True)
    return 0


class Nets(torch_gpu.Run):
    """Builds a case for its networks alone."""

    def __init__(self, args, case):
        super().__init__(argparse.Namespace(device="cpu", dtype="f32", small=args.small, batch=1), case, "eager")
        self.case, self.tensors, self.ctx, self.vocab = case, {}, 0, 0

    def network(self, net, scope="net"):
        for name, t in off_default(net).state_dict().items():
            weft = weft_name(self.case, scope, name)
            if weft:
                self.tensors[weft] = t
        if self.case == "gpt2_124m":
            self.vocab, self.ctx = net.wte.num_embeddings, net.wpe.num_embeddings
        return net

    def batches(self, _):
        return []


def parse_args():
    p = argparse.ArgumentParser(description="The start of a training as files, and PyTorch's losses from there.")
    p.add_argument("what", choices=("write", "run"))
    p.add_argument("folder")
    p.add_argument("cases", nargs="+", metavar="CASE:BATCH")
    p.add_argument("--steps", type=int, default=5)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--device", choices=("cuda", "cpu"), default="cpu")
    p.add_argument("--dtypes", default="f32,bf16", help="of f32, bf16, f64")
    p.add_argument("--small", action="store_true", help="gpt2_124m of two layers")
    p.add_argument("--spoil", choices=("weight", "rate"))
    args = p.parse_args()
    pairs = [word.partition(":") for word in args.cases]
    args.cases = [(case, int(batch)) for case, _, batch in pairs]
    return args


def main():
    args = parse_args()
    torch.backends.cudnn.allow_tf32 = False      # f32 means f32
    sys.exit({"write": write, "run": run}[args.what](args))


if __name__ == "__main__":
    main()
