#!/usr/bin/env python3
"""torch_zoo.py - the plans of PyTorch modules beside those of the same models of weft-zoo.

    torch_zoo.py PATH/TO/weft-zoo [NAME...]

The modules have the zoo's names of scopes. Both models are compiled for one batch; what one plan has and the other has
not is printed: op, types and shapes, options, kernel. Status 1: something differs that EXPLAINED does not name.
"""
import collections
import re
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

import weft


# ---- resnet18, 32 x 32 images ----

class Block(nn.Module):
    def __init__(self, before, after, stride):
        super().__init__()
        if stride != 1:
            self.short_conv, self.short_bn = nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after)
        self.conv1, self.bn1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.bn2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)

    def forward(self, x):
        short = self.short_bn(self.short_conv(x)) if hasattr(self, "short_conv") else x
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + short)


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64)
        for i, (before, after) in enumerate(((64, 64), (64, 128), (128, 256), (256, 512)), 1):
            setattr(self, f"layer{i}", nn.Sequential(Block(before, after, 1 if i == 1 else 2), Block(after, after, 1)))
        self.fc = nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class ResNetStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = ResNet()

    def forward(self, image, label):
        return F.cross_entropy(self.net(image), label)


# ---- dcgan, 64 x 64 images ----

class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (100, 512, 256, 128, 64, 3)
        for i in range(5):
            setattr(self, f"up{i + 1}", nn.ConvTranspose2d(sizes[i], sizes[i + 1], 4, 1 if i == 0 else 2, 0 if i == 0 else 1, bias=False))
            if i < 4:
                setattr(self, f"bn{i + 1}", nn.BatchNorm2d(sizes[i + 1]))

    def forward(self, z):
        x = z.reshape(z.shape[0], 100, 1, 1)
        for i in range(1, 5):
            x = F.relu(getattr(self, f"bn{i}")(getattr(self, f"up{i}")(x)))
        return torch.tanh(self.up5(x))


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (3, 64, 128, 256, 512, 1)
        for i in range(5):
            setattr(self, f"conv{i + 1}", nn.Conv2d(sizes[i], sizes[i + 1], 4, 1 if i == 4 else 2, 0 if i == 4 else 1, bias=False))
            if 0 < i < 4:
                setattr(self, f"bn{i + 1}", nn.BatchNorm2d(sizes[i + 1]))

    def forward(self, x):
        x = F.leaky_relu(self.conv1(x), 0.2)
        for i in range(2, 5):
            x = F.leaky_relu(getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(x)), 0.2)
        return self.conv5(x).reshape(-1, 1)


class DStep(nn.Module):
    def __init__(self, generator, discriminator):
        super().__init__()
        self.generator, self.discriminator = generator, discriminator

    def forward(self, image):
        real = self.discriminator(image)
        loss = F.binary_cross_entropy_with_logits(real, torch.ones_like(real))
        with torch.no_grad():
            made = self.generator(torch.randn(image.shape[0], 100))
        fake = self.discriminator(made)
        return {"d_loss": loss + F.binary_cross_entropy_with_logits(fake, torch.zeros_like(fake))}


class GStep(nn.Module):
    def __init__(self, generator, discriminator):
        super().__init__()
        self.generator, self.discriminator = generator, discriminator

    def forward(self, image):
        made = self.discriminator(self.generator(torch.randn(image.shape[0], 100)))
        return {"g_loss": F.binary_cross_entropy_with_logits(made, torch.ones_like(made))}


# ---- gpt2 ----

class GptBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.qkv, self.proj = nn.LayerNorm(d), nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ln2, self.fc, self.out = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (part.reshape(b, t, self.heads, d // self.heads).transpose(1, 2) for part in self.qkv(self.ln1(x)).chunk(3, -1))
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary=128, d=64, heads=4, layers=2, length=32):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, d), nn.Embedding(length, d)
        self.blocks, self.ln_f = nn.ModuleList(GptBlock(d, heads) for _ in range(layers)), nn.LayerNorm(d)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


class GptStep(nn.Module):
    def __init__(self, gpt):
        super().__init__()
        self.gpt = gpt

    def forward(self, tokens, target):
        logits = self.gpt(tokens)
        logits = getattr(logits, "logits", logits)
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), target.reshape(-1))


# ---- the comparison ----

BATCH, BOTH = {0: "batch"}, 8


def resnet18(model):
    model.from_torch("train", ResNetStep(), (torch.randn(BOTH, 3, 32, 32), torch.zeros(BOTH, dtype=torch.int32).long()),
                     dynamic={"image": BATCH, "label": BATCH}, minimize=weft.SGD(0.1, momentum=0.9, weight_decay=5e-4))


def dcgan(model):
    step = DStep(Generator(), Discriminator())
    model.from_torch("d_step", step, (torch.randn(BOTH, 3, 64, 64),), dynamic={"image": BATCH}, loss="d_loss",
                     minimize={"discriminator": weft.Adam(2e-4, beta1=0.5)})


def dcgan_g_step(model):
    step = GStep(Generator(), Discriminator())
    model.from_torch("g_step", step, (torch.randn(BOTH, 3, 64, 64),), dynamic={"image": BATCH}, loss="g_loss",
                     minimize={"generator": weft.Adam(2e-4, beta1=0.5)})


def trained_gpt(model, gpt, length, norms):
    ids = torch.zeros(BOTH, length, dtype=torch.int32)
    model.from_torch("train", GptStep(gpt), (ids, ids.long()), dynamic={"tokens": BATCH, "target": BATCH}, minimize=weft.AdamW(
        6e-4, beta2=0.95, weight_decay=0.1, clip_norm=1.0, groups=[{"pattern": p, "decay_scale": 0} for p in ("*/bias", f"*/{norms}/weight")]))


def gpt2_124m(model):
    trained_gpt(model, Gpt(), 32, "ln*")


def gpt2_of_transformers(model):
    from transformers import GPT2Config, GPT2LMHeadModel
    config = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, use_cache=False)
    trained_gpt(model, GPT2LMHeadModel(config), config.n_positions, "ln_*")


# Of the zoo: its name, its options; here: what makes it, and the graph.
MODELS = {"resnet18": ("resnet18", [], resnet18, "train"), "dcgan": ("dcgan", [], dcgan, "d_step"), "dcgan_g_step": ("dcgan", [], dcgan_g_step, "g_step"),
          "gpt2_124m": ("gpt2_124m", ["--layers=2", "--d=64", "--heads=4", "--ctx=32", "--vocab=128"], gpt2_124m, "train"),
          "gpt2_of_transformers": ("gpt2_124m", ["--vocab=50257"], gpt2_of_transformers, "train")}
# Differences that are no kernel's.
EXPLAINED = (
    ("input f32", "the images say how long the batch is; the zoo's step has no input"),
    ("input", "PyTorch's cross_entropy takes i64 labels alone, the zoo feeds i32"),
    ("reshape", "a reshape of the importer says where the batch is, that of the zoo -1; it is a view"),
)
# Of transformers' GPT-2: what the model says otherwise than the zoo's.
OF_TRANSFORMERS = (
    (r"(arange|broadcast_to|concat|constant|constant_tensor|cumsum|equal|fused|greater_equal|index|not_equal|offset|slice|sub|reshape) (i64|bool)",
     "its mask of packed sequences, whose first axis is the batch"),
    (r"attention", "attention gets that mask; the zoo's is causal by an option"),
    (r"(add|matmul|linear|sum|reshape) f32", "its Conv1D is addmm on rows, with weights [in, out]; the zoo's is linear"),
    (r"(fused|scale|gelu_tanh|gelu_tanh_backward) f32\[8,1024,3072\]", "its NewGELUActivation is written in parts; the zoo's is gelu_tanh"),
    (r"embedding", "it looks positions up; the zoo adds their table"),
)
NODE = re.compile(r"^%\d+ (?P<results>[^=]*?) ?= (?P<op>\w+)\((?P<operands>.*?)\)(?P<rest>.*)$")


def nodes_of(plan, graph):
    """How often each node is in a graph: op, its results' types, options, kernel; without numbers, scopes and places in memory."""
    found, here = collections.Counter(), False
    for line in plan.text().splitlines():
        if line.startswith("graph "):
            here = line.split()[1] == graph
        node = NODE.match(line) if here else None
        if node:
            types = re.sub(r"%\d+ ", "", node["results"])
            kernel = (re.search(r" by (\w+)", node["rest"]) or [None, "view"])[1]
            options = " ".join(re.findall(r"\b(?!key|path|name|after|before)\w+=[^% ]+", re.sub(r" in \S+| by .*|=%.*", "", node["rest"])))
            found[f"{node['op']} {types} {options} [{kernel}]"] += 1
    return found


def compare(zoo, name):
    zoos, options, make, graph = MODELS[name]
    ours = weft.Model(name, batch=BOTH)
    make(ours)
    with tempfile.NamedTemporaryFile(suffix=".bin") as file:
        subprocess.run([zoo, zoos, "-o", file.name, *options], check=True, stdout=subprocess.DEVNULL)
        theirs = weft.load(file.name)
    plans = [nodes_of(m.compile(batch=BOTH, threads=1), graph) for m in (ours, theirs)]
    print(f"{name}, graph {graph}: {sum(plans[0].values())} nodes from PyTorch, {sum(plans[1].values())} of the zoo")
    new = 0
    for sign, difference in (("+", plans[0] - plans[1]), ("-", plans[1] - plans[0])):
        for node, count in sorted(difference.items()):
            why = next((w for op, w in EXPLAINED if node.startswith(op) and node.endswith("[view]")), None)
            why = why or name.endswith("transformers") and next((w for op, w in OF_TRANSFORMERS if re.match(op, node)), None) or None
            new += why is None
            print(f"  {sign} {count} {node}: {why}" if why else f"  {sign} {count} {node}: NOT EXPLAINED")
    return new


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(1 if sum(compare(sys.argv[1], chosen) for chosen in sys.argv[2:] or MODELS) else 0)
