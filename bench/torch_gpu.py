#!/usr/bin/env python3
"""torch_gpu.py - the PyTorch-on-GPU ruler: times one full training step, its best forms side by side.

    python torch_gpu.py [CASE...] [--modes compile,graphs] [--dtype bf16|f32] [--batch B]
                        [--steps K] [--warmup W] [--device cuda|cpu] [--small]

Prints one JSON line for each (case, mode). WHAT A STEP IS stands in torch_cpu.py, whose networks these are:
forward, loss, backward, update, on synthetic batches that lie on the device; a GAN step is both updates.

  gpt2_124m  12 layers, d 768, 12 heads, T 1024, vocabulary 50,304, tied head; AdamW lr 6e-4 betas 0.9/0.95,
             decay 0.1 on matrices alone, gradients clipped to norm 1; batch 32
  resnet50   torchvision's (bottlenecks v1.5), 224x224, 1000 classes; SGD lr 0.1 momentum 0.9 wd 1e-4; batch 256
  dcgan      64x64, both steps, Adam 2e-4 betas 0.5/0.999; batch 128
  mlp        784-1024-1024-10, Adam 1e-3; batch 256

compile: torch.compile of forward and loss (the backward comes with it); graphs: the same with
mode="reduce-overhead", which replays CUDA graphs; autotune: with mode="max-autotune-no-cudagraphs", which takes
minutes to compile; eager. Optimizers are fused=True, images channels_last, bf16 is
torch.autocast with f32 weights and state; TF32 stays off in f32. Each (case, mode) is a process of its own
when there are several, so that one's memory and caches do not meet another's.

median_ms: between CUDA events around each step (cpu: wall time). mfu: of the dense bf16 peak, with the usual
operation counts (flops_of). peak_mib: torch.cuda.max_memory_allocated; process_mib: what the device lacks
for this process, context and libraries included. --small (always with cpu): sizes that only show that all works.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

from torch_cpu import GPT, make_dcgan, make_mlp

NB = 4          # distinct batches on the device
SEED = 1234
PEAK_BF16 = {"H200": 989e12, "H100": 989e12, "A100": 312e12}     # dense, the vendor's data sheets


# --------------------------------------------------------------------------- the networks
class GPT2(GPT):
    """GPT-2: the head is the token embedding; projections into the residual stream start smaller."""

    def __init__(self, vocab=50304, ctx=1024, layers=12, d=768, heads=12):
        super().__init__(vocab, ctx, layers, d, heads)
        self.head.weight = self.wte.weight
        for block in self.blocks:
            for linear in (block.proj, block.out):
                nn.init.normal_(linear.weight, 0.0, 0.02 / math.sqrt(2 * layers))


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or cin != 4 * width:
            self.downsample = nn.Sequential(nn.Conv2d(cin, 4 * width, 1, stride, bias=False),
                                            nn.BatchNorm2d(4 * width))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + (self.downsample(x) if self.downsample else x))


class ResNet50(nn.Module):
    """torchvision.models.resnet50 by name and initial value; the machine may lack torchvision."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        cin = 64
        for i, blocks in enumerate((3, 4, 6, 3)):
            width, layer = 64 << i, []
            for j in range(blocks):
                layer.append(Bottleneck(cin, width, 2 if i and not j else 1))
                cin = 4 * width
            setattr(self, f"layer{i + 1}", nn.Sequential(*layer))
        self.fc = nn.Linear(2048, 1000)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


# ------------------------------------------------------------------------------ the cases
class Run:
    """What a case needs: device, data, precision, compilation."""

    def __init__(self, args, case, mode):
        self.device, self.mode, self.bf16 = args.device, mode, args.dtype == "bf16"
        self.small, self.params = args.small, 0
        self.batch = args.batch or (SMALL if args.small else BATCH)[case]
        self.gen = torch.Generator(self.device).manual_seed(SEED)

    def randn(self, *shape):
        x = torch.randn(*shape, generator=self.gen, device=self.device)
        return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x

    def randint(self, high, *shape):
        return torch.randint(high, shape, generator=self.gen, device=self.device)

    def network(self, net, scope="net"):
        """scope: the network's name among those of its case (torch_losses.py)."""
        self.params += sum(p.numel() for p in net.parameters())
        return net.to(self.device, memory_format=torch.channels_last)

    def batches(self, make):
        """What make() gives, for each of the batches that are used in turn."""
        return [make() for _ in range(NB)]

    def loss(self, function):
        """The function under autocast, compiled as the mode says."""
        options = {"graphs": {"mode": "reduce-overhead"}, "compile": {},
                   "autotune": {"mode": "max-autotune-no-cudagraphs"}}.get(self.mode)
        inner = function if options is None else torch.compile(function, **options)

        def call(*tensors):
            with torch.autocast(self.device, torch.bfloat16, enabled=self.bf16):
                return inner(*tensors)
        return call


def train_step(loss_of, opt, clip=()):
    """One update: the loss it began with. clip: parameters whose gradients' norm is kept at 1."""
    def step(*tensors):
        loss = loss_of(*tensors)
        loss.backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(clip, 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss.detach()
    return step


def classifier(net):
    return lambda x, y: F.cross_entropy(net(x), y)


def case_mlp(r):
    net = r.network(make_mlp())
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, fused=True)
    data = r.batches(lambda: (r.randn(r.batch, 784), r.randint(10, r.batch)))
    step = train_step(r.loss(classifier(net)), opt)
    return lambda i: step(*data[i % len(data)])


def gpt2_groups(net):
    """Weight decay on what has two axes."""
    params = list(net.parameters())
    return [{"params": [p for p in params if p.dim() >= 2], "weight_decay": 0.1},
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]


def case_gpt2(r):
    size = dict(vocab=128, ctx=32, layers=2, d=64, heads=2) if r.small else {}
    net = r.network(GPT2(**size))
    vocab, ctx = net.wte.num_embeddings, net.wpe.num_embeddings
    opt = torch.optim.AdamW(gpt2_groups(net), lr=6e-4, betas=(0.9, 0.95), fused=True)

    def text():
        t = r.randint(vocab, r.batch, ctx + 1)
        return t[:, :-1].contiguous(), t[:, 1:].flatten()

    data = r.batches(text)
    step = train_step(r.loss(classifier(net)), opt, clip=list(net.parameters()))
    return lambda i: step(*data[i % len(data)])


def case_resnet50(r):
    net, side = r.network(ResNet50()), 64 if r.small else 224
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, fused=True)
    data = r.batches(lambda: (r.randn(r.batch, 3, side, side), r.randint(1000, r.batch)))
    step = train_step(r.loss(classifier(net)), opt)
    return lambda i: step(*data[i % len(data)])


def case_dcgan(r):
    """D on real and no_grad fake, then G through a frozen D, as in torch_cpu.py."""
    g_net, d_net = (r.network(n, scope) for n, scope in zip(make_dcgan(), ("generator", "discriminator")))
    g_opt, d_opt = (torch.optim.Adam(n.parameters(), lr=2e-4, betas=(0.5, 0.999), fused=True)
                    for n in (g_net, d_net))
    data = r.batches(lambda: (r.randn(r.batch, 3, 64, 64).clamp_(-1, 1), r.randn(r.batch, 100), r.randn(r.batch, 100)))
    ones, zeros = (torch.full((r.batch, 1), v, device=r.device) for v in (1.0, 0.0))
    bce = F.binary_cross_entropy_with_logits

    def d_loss(x, z):
        with torch.no_grad():
            fake = g_net(z)
        return bce(d_net(x), ones) + bce(d_net(fake), zeros)

    d_step = train_step(r.loss(d_loss), d_opt)
    g_step = train_step(r.loss(lambda z: bce(d_net(g_net(z)), ones)), g_opt)

    def step(i):
        real, z_d, z_g = data[i % len(data)]
        d_net.requires_grad_(True)
        d = d_step(real, z_d).clone()            # a graph's output: the next replay may take its place
        d_net.requires_grad_(False)
        return torch.stack((d, g_step(z_g)))
    return step


CASES = {"gpt2_124m": case_gpt2, "resnet50": case_resnet50, "dcgan": case_dcgan, "mlp": case_mlp}
BATCH = {"gpt2_124m": 32, "resnet50": 256, "dcgan": 128, "mlp": 256}
SMALL = {"gpt2_124m": 2, "resnet50": 2, "dcgan": 2, "mlp": 8}
MODES = ("eager", "compile", "graphs", "autotune")


def flops_of(case, batch):
    """Operations of a step, or None. gpt2: 6 a weight and token and 12 L d T for attention (PaLM, appendix B; its
    causal half is not taken off); resnet50: three times 4.09 G multiply-adds an image."""
    if case == "gpt2_124m":
        return batch * 1024 * (6 * (124475904 - 1024 * 768) + 12 * 12 * 768 * 1024)
    return batch * 3 * 2 * 4.09e9 if case == "resnet50" else None


# ---------------------------------------------------------------------------- the running
def time_on_cuda(step, warmup, steps):
    """Each step's ms from events: nothing waits for the device while steps run."""
    for i in range(warmup):
        step(i)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    marks[0].record()
    for i in range(steps):
        last = step(warmup + i)
        marks[i + 1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) for a, b in zip(marks, marks[1:])], last


def time_on_cpu(step, warmup, steps):
    for i in range(warmup):
        step(i)
    times = []
    for i in range(steps):
        begin = time.perf_counter()
        last = step(warmup + i)
        times.append((time.perf_counter() - begin) * 1e3)
    return times, last


def memory(device):
    """Peak of PyTorch's own allocations, and what the device lacks now: this process, when it is alone there."""
    if device == "cpu":
        return {"peak_mib": None, "process_mib": None}
    free, total = torch.cuda.mem_get_info()
    return {"peak_mib": round(torch.cuda.max_memory_allocated() / 2**20, 1),
            "process_mib": round((total - free) / 2**20, 1)}


def rates(case, r, median_ms):
    seconds, flops = median_ms / 1e3, None if r.small else flops_of(case, r.batch)
    items = r.batch * (1 if case != "gpt2_124m" else 32 if r.small else 1024)
    name = torch.cuda.get_device_name() if r.device == "cuda" else "cpu"
    peak = next((v for k, v in PEAK_BF16.items() if k in name), None) if r.bf16 else None
    return {"rate": round(items / seconds, 1),
            "unit": "tokens/s" if case == "gpt2_124m" else "images/s",
            "flops": flops, "mfu": round(flops / seconds / peak, 4) if flops and peak else None,
            "name": name}


def numbers(loss):
    return [round(float(v), 5) for v in loss.reshape(-1)]


def measure(args, case, mode):
    torch.manual_seed(SEED)
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False      # f32 means f32; it is on by default, unlike that of matrix products
    r = Run(args, case, mode)
    begin = time.perf_counter()
    step = CASES[case](r)
    first = numbers(step(0))
    first_ms = (time.perf_counter() - begin) * 1e3
    timed = time_on_cuda if r.device == "cuda" else time_on_cpu
    times, last = timed(lambda i: step(i + 1), args.warmup, args.steps)
    median = statistics.median(times)
    return {"median_ms": round(median, 4), "min_ms": round(min(times), 4),
            "first_step_ms": round(first_ms, 1), "batch": r.batch, "params": r.params,
            **rates(case, r, median), **memory(r.device),
            "losses": {"first": first, "last": numbers(last)}}


def report(args, case, mode):
    """Measures in this process and prints the line; 1 when it failed."""
    line = {"engine": "pytorch", "case": case, "mode": mode, "dtype": args.dtype, "device": args.device,
            "steps": args.steps, "torch": torch.__version__}
    try:
        line.update(measure(args, case, mode))
    except Exception as e:                       # out of memory, a compiler's refusal: the other modes still count
        line["error"] = f"{type(e).__name__}: {e}"[:300]
    print(json.dumps(line), flush=True)
    return int("error" in line)


def in_processes(args, pairs):
    """One process for each pair; its line goes straight to our standard output."""
    common = ["--dtype", args.dtype, "--device", args.device, "--steps", str(args.steps),
              "--warmup", str(args.warmup), "--batch", str(args.batch)]
    common += ["--small"] * args.small
    return max(subprocess.run([sys.executable, __file__, case, "--modes", mode, *common]).returncode != 0
               for case, mode in pairs)


def parse_args(argv=None):
    p = argparse.ArgumentParser(description="Time one training step of PyTorch on a GPU.")
    p.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)} (all)")
    p.add_argument("--modes", default="compile,graphs", help=f"of {', '.join(MODES)} (compile,graphs)")
    p.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    p.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    p.add_argument("--batch", type=int, default=0, help="0: the case's own")
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--warmup", type=int, default=10)
    p.add_argument("--small", action="store_true")
    a = p.parse_args(argv)
    a.cases, a.modes = a.cases or list(CASES), a.modes.split(",")
    a.small = a.small or a.device == "cpu"
    for word, known in [(c, CASES) for c in a.cases] + [(m, MODES) for m in a.modes]:
        if word not in known:
            p.error(f"'{word}' is not one of {', '.join(known)}")
    if a.steps < 1 or a.warmup < 0 or a.batch < 0:
        p.error("steps must be at least 1, warmup and batch at least 0")
    return a


def main():
    args = parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_gpu.py: PyTorch sees no GPU here (--device cpu rehearses)")
    pairs = [(c, m) for c in args.cases for m in args.modes]
    sys.exit(report(args, *pairs[0]) if len(pairs) == 1 else in_processes(args, pairs))


if __name__ == "__main__":
    main()
