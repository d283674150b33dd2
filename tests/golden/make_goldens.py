#!/usr/bin/env python3
"""make_goldens.py - PyTorch's answers for the tests: small trainings and single ops.

    python tests/golden/make_goldens.py [CASE...] [-o DIR]

Every training case is run three times from the same initial values on the same data:
  f32      what is written: `init.*`, `data.*`, `losses`, `final.*` (README.md has the format)
  f64      the same in float64: how far f32 rounding moves the result
  shaken   f64 with every initial value off by about one f32 rounding (relative 6e-8 * N(0,1)):
           how far ANY other f32 implementation may land; the largest of four shakes is shown
The table that is printed is the noise floor a comparison has to live with.  A floor above
LOSS_FLOOR or FINAL_FLOOR makes the script exit 1: such a golden would test luck.

Ops are computed in float64 from f32 inputs and rounded once, so a kernel is compared with the
true value.  One thread, fixed seeds: the same PyTorch on the same processor gives the same bytes.
"""
import argparse
import json
import math
import os
import sys
import warnings

import torch
import torch.nn as nn
import torch.nn.functional as F
from safetensors.torch import save_file
from torch.nn.attention.bias import causal_lower_right

STEPS = 20
LOSS_FLOOR, FINAL_FLOOR = 2e-6, 2e-5
INDEX = torch.int32                 # how indices (labels, tokens) are stored
PLAIN = dict(foreach=False, fused=False)


# ---------------------------------------------------------------------------- the networks
class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(20, 32), nn.Linear(32, 32), nn.Linear(32, 10)

    def forward(self, x):
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.conv2, self.bn2 = nn.Conv2d(8, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.fc = nn.Linear(16, 10)

    def forward(self, x):                                                   # [8,3,12,12]
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 2)                # [8,8,6,6]
        x = F.leaky_relu(self.bn2(self.conv2(x)), 0.1)                      # [8,16,3,3]
        return self.fc(x.mean((2, 3)))


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        # No bias on qkv: the key part's would have a zero true gradient, and Adam would turn
        # its rounding noise into full-size steps.
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d)
        self.fc, self.out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(d, dim=2)
        q, k, v = (u.view(b, t, self.heads, d // self.heads).transpose(1, 2) for u in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, d))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocab=17, ctx=16, layers=2, d=32, heads=4):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, d), nn.Embedding(ctx, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)
        for m in (self.wte, self.wpe):
            nn.init.normal_(m.weight, 0.0, 0.3)

    def forward(self, idx):                                                 # [4,16]
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln_f(x))                                      # [4,16,17]


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.bn1 = nn.Linear(8, 4 * 4 * 8, bias=False), nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 1, 4, 2, 1)

    def forward(self, z):                                                   # [8,8]
        x = F.relu(self.bn1(self.fc(z).view(-1, 8, 4, 4)))
        return torch.tanh(self.up(x))                                       # [8,1,8,8]


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 4, 2, 1)
        self.conv2, self.bn2 = nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.fc = nn.Linear(16 * 2 * 2, 1)

    def forward(self, x):                                                   # [8,1,8,8]
        x = F.leaky_relu(self.conv1(x), 0.2)                                # [8,8,4,4]
        x = F.leaky_relu(self.bn2(self.conv2(x)), 0.2)                      # [8,16,2,2]
        return self.fc(x.flatten(1))                                        # [8,1]


class CharModel(nn.Module):
    def __init__(self, vocab=17, d=24):
        super().__init__()
        self.wte = nn.Embedding(vocab, d)
        self.lstm = nn.LSTM(d, d, num_layers=2, batch_first=True)
        self.head = nn.Linear(d, vocab)

    def forward(self, idx):                                                 # [4,16]
        return self.head(self.lstm(self.wte(idx))[0])


class Recurrent(nn.Module):
    """Two layers in both directions; a classifier reads the mean of all times and the last states."""
    def __init__(self, kind, **kw):
        super().__init__()
        self.rnn = kind(6, 9, num_layers=2, bidirectional=True, **kw)
        self.fc = nn.Linear(18 + 36 * (2 if kind is nn.LSTM else 1), 5)

    def forward(self, x, *states):                                          # [7,8,6], [4,8,9]
        y, last = self.rnn(x, states if len(states) > 1 else states[0])
        last = last if isinstance(last, tuple) else (last,)
        means = y.mean(1 if self.rnn.batch_first else 0)
        return self.fc(torch.cat([means, *(s.transpose(0, 1).flatten(1) for s in last)], 1))


def off_default(net):
    """Norms start with ones and zeros, which would hide a value that is not loaded: move them."""
    for m in net.modules():
        if isinstance(m, (nn.BatchNorm2d, nn.LayerNorm)):
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.normal_(m.bias, 0.0, 0.2)
        if isinstance(m, nn.BatchNorm2d):
            nn.init.normal_(m.running_mean, 0.0, 0.5)
            nn.init.uniform_(m.running_var, 0.5, 2.0)
    return net


# ------------------------------------------------------------------------- the training cases
# A case is a function of nothing that returns: the networks by scope, the data (axis 0 is the
# step), what to note about it, and a function of the networks that makes step(t, batch) ->
# {"losses": ..., ...}; each name becomes a float64 [20] tensor.
def classifier(make_optimizer, about):
    """A step of cross-entropy on (x, label)."""
    def prepare(nets):
        net, = nets.values()
        opt = make_optimizer(net)

        def step(t, batch):
            loss = F.cross_entropy(net(batch["x"]), batch["label"].long())
            opt.zero_grad()
            loss.backward()
            opt.step()
            return {"losses": loss.item()}
        return step
    return prepare, about


def mlp(cls, lr, **kw):
    def case():
        torch.manual_seed(11)
        x = torch.randn(STEPS, 16, 20)
        data = {"x": x, "label": (x @ torch.randn(20, 10)).argmax(-1).to(INDEX)}     # can be learned
        prepare, about = classifier(lambda net: cls(net.parameters(), lr=lr, **kw, **PLAIN),
                                    dict(optimizer=cls.__name__, lr=lr, **kw))
        return {"net": MLP()}, data, about, prepare
    return case


def mlp_groups():
    """AdamW with weights in one group, biases in another: no decay, half the learning rate."""
    nets, data, about, _ = mlp(torch.optim.AdamW, 1e-2, weight_decay=0.1)()
    about["bias group"] = "lr x 0.5, weight_decay 0"

    def two_groups(net):
        named = list(net.named_parameters())
        return torch.optim.AdamW(
            [{"params": [p for n, p in named if not n.endswith("bias")]},
             {"params": [p for n, p in named if n.endswith("bias")], "lr": 5e-3, "weight_decay": 0.0}],
            lr=1e-2, weight_decay=0.1, **PLAIN)
    prepare, _ = classifier(two_groups, about)
    return nets, data, about, prepare


def convnet():
    torch.manual_seed(12)
    net = off_default(ConvNet())
    data = {"x": torch.randn(STEPS, 8, 3, 12, 12), "label": torch.randint(10, (STEPS, 8), dtype=INDEX)}
    prepare, about = classifier(
        lambda n: torch.optim.SGD(n.parameters(), lr=0.05, momentum=0.9, **PLAIN),
        dict(optimizer="SGD", lr=0.05, momentum=0.9))
    return {"net": net}, data, about, prepare


def cosine_lr(t, base=3e-3, warmup=5, total=STEPS, m=0.1):
    """The learning rate of step t (0-based): linear warm-up, then half a cosine down to m * base."""
    if t < warmup:
        return base * (t + 1) / warmup
    return base * (m + (1 - m) * 0.5 * (1 + math.cos(math.pi * (t - warmup) / (total - warmup))))


def markov_text(rows, length, vocab=17):
    """Tokens that mostly follow next = (3 * token + 1) mod vocab, so that there is something to learn."""
    text = torch.randint(vocab, (rows, length))
    for i in range(1, length):
        follows = torch.rand(rows) < 0.9
        text[:, i] = torch.where(follows, (3 * text[:, i - 1] + 1) % vocab, text[:, i])
    return text


GPT_CLIP = 0.5


def gpt():
    torch.manual_seed(24)
    net = off_default(GPT())
    net.ln_f.weight.data *= 0.15        # small gradients: most steps stay under GPT_CLIP ...
    text = markov_text(STEPS * 4, 17).view(STEPS, 4, 17).to(INDEX)
    text[2::3] = text[2::3, :, :1]      # ... but a batch of four repeated tokens goes far above it
    data = {"tokens": text[:, :, :-1].contiguous(), "targets": text[:, :, 1:].contiguous()}
    about = dict(optimizer="AdamW", lr="cosine_lr(t)", weight_decay=0.1, clip_grad_norm=GPT_CLIP)

    def prepare(nets):
        net = nets["gpt"]
        opt = torch.optim.AdamW(net.parameters(), lr=0.0, weight_decay=0.1, **PLAIN)

        def step(t, batch):
            for group in opt.param_groups:
                group["lr"] = cosine_lr(t)
            loss = F.cross_entropy(net(batch["tokens"].long()).flatten(0, 1),
                                   batch["targets"].long().flatten())
            opt.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(net.parameters(), GPT_CLIP, foreach=False)
            opt.step()
            return {"losses": loss.item(), "grad_norms": norm.item(), "lr": cosine_lr(t)}
        return step
    return {"gpt": net}, data, about, prepare


def lstm_char():
    torch.manual_seed(31)
    text = markov_text(STEPS * 4, 17).view(STEPS, 4, 17).to(INDEX)
    data = {"tokens": text[:, :, :-1].contiguous(), "targets": text[:, :, 1:].contiguous()}

    def prepare(nets):
        net, = nets.values()
        opt = ADAM(net.parameters(), lr=1e-2, **PLAIN)

        def step(t, batch):
            loss = F.cross_entropy(net(batch["tokens"].long()).flatten(0, 1),
                                   batch["targets"].long().flatten())
            opt.zero_grad()
            loss.backward()
            opt.step()
            return {"losses": loss.item()}
        return step
    return {"net": CharModel()}, data, dict(optimizer="Adam", lr=1e-2), prepare


def recurrent(kind, **kw):
    def case():
        torch.manual_seed(32)
        first = bool(kw.get("batch_first"))
        x = torch.randn(STEPS, *((8, 7, 6) if first else (7, 8, 6)))
        data = {"x": x, "h0": torch.randn(STEPS, 4, 8, 9)}
        if kind is nn.LSTM:
            data["c0"] = torch.randn(STEPS, 4, 8, 9)
        data["label"] = (x.mean(1 + first) @ torch.randn(6, 5)).argmax(-1).to(INDEX)

        def prepare(nets):
            net, = nets.values()
            opt = SGD(net.parameters(), lr=0.1, momentum=0.9, **PLAIN)

            def step(t, batch):
                label = batch.pop("label").long()
                loss = F.cross_entropy(net(*batch.values()), label)
                opt.zero_grad()
                loss.backward()
                opt.step()
                return {"losses": loss.item()}
            return step
        return {"net": Recurrent(kind, **kw)}, data, dict(optimizer="SGD", lr=0.1, momentum=0.9, **kw), prepare
    return case


def gan():
    torch.manual_seed(14)
    nets = {"generator": off_default(Generator()), "discriminator": off_default(Discriminator())}
    data = {"real": torch.randn(STEPS, 8, 1, 8, 8).clamp_(-1, 1),
            "z1": torch.randn(STEPS, 8, 8), "z2": torch.randn(STEPS, 8, 8)}
    about = dict(optimizer="Adam, one each", lr=2e-4, betas=[0.5, 0.999])

    def prepare(nets):
        g, d = nets["generator"], nets["discriminator"]
        g_opt, d_opt = (torch.optim.Adam(n.parameters(), lr=2e-4, betas=(0.5, 0.999), **PLAIN)
                        for n in (g, d))
        dtype = next(g.parameters()).dtype
        ones, zeros = torch.ones(8, 1, dtype=dtype), torch.zeros(8, 1, dtype=dtype)
        bce = F.binary_cross_entropy_with_logits

        def step(t, batch):
            # d_step.  The order of the two D calls is the order in which its running statistics move.
            real = bce(d(batch["real"]), ones)
            fake = bce(d(g(batch["z1"]).detach()), zeros)
            d_loss = real + fake
            d_opt.zero_grad()
            d_loss.backward()
            d_opt.step()
            # g_step.  D is frozen, but in train mode: its running statistics move here too.
            d.requires_grad_(False)
            g_loss = bce(d(g(batch["z2"])), ones)
            g_opt.zero_grad()
            g_loss.backward()
            g_opt.step()
            d.requires_grad_(True)
            return {"d_losses": d_loss.item(), "g_losses": g_loss.item()}
        return step
    return nets, data, about, prepare


SGD, ADAM, ADAMW = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
TRAININGS = {
    "mlp_sgd": mlp(SGD, 0.3),
    "mlp_sgd_momentum": mlp(SGD, 0.1, momentum=0.9),
    "mlp_sgd_nesterov": mlp(SGD, 0.1, momentum=0.9, nesterov=True, weight_decay=1e-2),
    "mlp_sgd_dampening": mlp(SGD, 0.1, momentum=0.9, dampening=0.1, weight_decay=1e-2),
    "mlp_adam": mlp(ADAM, 1e-2),
    "mlp_adam_decay": mlp(ADAM, 1e-2, weight_decay=1e-2),
    "mlp_adamw": mlp(ADAMW, 1e-2, weight_decay=0.1),
    "mlp_adamw_groups": mlp_groups,
    "convnet": convnet,
    "gpt": gpt,
    "gan": gan,
    "lstm_char": lstm_char,
    "lstm": recurrent(nn.LSTM, bias=False),
    "gru": recurrent(nn.GRU, batch_first=True),
    "gru_no_bias": recurrent(nn.GRU, bias=False),
    "rnn_tanh": recurrent(nn.RNN),
    "rnn_relu": recurrent(nn.RNN, nonlinearity="relu", batch_first=True),
}


# --------------------------------------------------------------------------- running a training
def tensors_of(nets):
    """{scope.name: value} of every parameter and buffer but num_batches_tracked, copied."""
    return {f"{scope}.{name}": value.detach().clone() for scope, net in nets.items()
            for name, value in net.state_dict().items() if not name.endswith("num_batches_tracked")}


def train(case, dtype, shake=0):
    """Run a case: (initial values, data, curves, final values, about)."""
    nets, data, about, prepare = case()
    init = tensors_of(nets)
    for net in nets.values():
        net.to(dtype).train()
    if shake:
        gen = torch.Generator().manual_seed(shake)
        for net in nets.values():
            for value in [*net.parameters(), *net.buffers()]:
                if value.is_floating_point():
                    value.data *= 1 + 6e-8 * torch.randn(value.shape, generator=gen, dtype=dtype)
    step, curves = prepare(nets), {}
    for t in range(STEPS):
        batch = {k: v[t].to(dtype) if v.is_floating_point() else v[t] for k, v in data.items()}
        for name, figure in step(t, batch).items():
            curves.setdefault(name, []).append(figure)
    return init, data, {k: torch.tensor(v, dtype=torch.float64) for k, v in curves.items()}, \
        tensors_of(nets), about


AUTOCAST = "mlp_sgd", "mlp_adam", "convnet", "gpt"


def make_autocast(folder):
    """Write autocast.safetensors: the losses of some trainings again, under torch.autocast in bf16."""
    tensors = {}
    for name in AUTOCAST:
        nets, data, _, prepare = TRAININGS[name]()
        for net in nets.values():
            net.train()
            inside = torch.autocast("cpu", torch.bfloat16)(net.forward)
            net.forward = lambda x, inside=inside: inside(x).float()    # the loss is of f32, as under autocast
        step = prepare(nets)
        losses = [step(t, {k: v[t] for k, v in data.items()})["losses"] for t in range(STEPS)]
        tensors[f"{name}.bf16"] = torch.tensor(losses, dtype=torch.float64)
        exact = train(TRAININGS[name], torch.float32)[2]["losses"]
        off = ((tensors[f"{name}.bf16"] - exact).abs() / exact.abs()).max().item()
        print(f"{'autocast ' + name:18} {'':8} bf16 is at most {off:.1e} off f32")
    save(tensors, {"dtype": "bfloat16"}, folder, "autocast")
    return True


def apart(a, b):
    """||a - b|| / ||b||, in float64."""
    a, b = a.double(), b.double()
    return ((a - b).norm() / b.norm().clamp_min(1e-300)).item()


def floors(run, truth):
    """(largest relative difference of a loss, largest norm-wise difference of a tensor, its name)."""
    loss = max(((run[2][k] - v).abs() / v.abs()).max().item() for k, v in truth[2].items())
    final, name = max((apart(run[3][k], v), k) for k, v in truth[3].items())
    return loss, final, name


def make_training(name, folder):
    """Write one training golden, print its line; false when its floor is too high."""
    case = TRAININGS[name]
    run, truth = train(case, torch.float32), train(case, torch.float64)
    loss, final, worst = floors(run, truth)
    shakes = [floors(train(case, torch.float64, shake), truth) for shake in (1, 2, 3, 4)]
    shaken_loss, shaken_final = max(s[0] for s in shakes), max(s[1] for s in shakes)

    init, data, curves, last, about = run
    tensors = {f"init.{k}": v for k, v in init.items()} | {f"data.{k}": v for k, v in data.items()}
    tensors |= curves | {f"final.{k}": v for k, v in last.items()}
    size = save(tensors, dict(about, data="axis 0 is the step", steps=STEPS), folder, name)
    print(f"{name:18} {size:8} {loss:8.1e} {final:8.1e} {shaken_loss:8.1e} {shaken_final:8.1e}  {worst}")
    for k, v in curves.items():
        print(f"    {k} {v[0]:.4f} .. {v[-1]:.4f}" +
              (f" ({(v > GPT_CLIP).sum()} of {STEPS} are clipped)" if k == "grad_norms" else ""))
    return max(loss, shaken_loss) < LOSS_FLOOR and max(final, shaken_final) < FINAL_FLOOR


# -------------------------------------------------------------------------------- the single ops
def conv(x_shape, w_shape, bias=True, **kw):
    return [x_shape, w_shape] + ([[w_shape[0]]] if bias else []), \
        lambda x, w, b=None: F.conv2d(x, w, b, **kw), kw


def conv_transpose(x_shape, w_shape, bias=True, groups=1, **kw):
    return [x_shape, w_shape] + ([[w_shape[1] * groups]] if bias else []), \
        lambda x, w, b=None: F.conv_transpose2d(x, w, b, groups=groups, **kw), dict(kw, groups=groups)


def plain(function, *shapes, **kw):
    return list(shapes), lambda *inputs: function(*inputs, **kw), kw


def batch_norm(training, x_shape):
    """in: x, weight, bias, running_mean, running_var; only the first three have gradients."""
    kw = dict(training=training, momentum=0.1, eps=1e-5)
    c = [x_shape[1]]

    def run(x, weight, bias, mean, var):
        mean, var = mean.detach().clone(), var.detach().clone()
        y = F.batch_norm(x, mean, var, weight, bias, **kw)
        return (y, {"running_mean": mean, "running_var": var}) if training else y
    return [x_shape, c, c, ("fixed", c), ("fixed positive", c)], run, kw


def op_cases():
    """{name: (inputs, function, attributes)}.  An input is a shape, or (how, shape): 'fixed' has no
    gradient; 'positive' has that range; 'below N' is an index.
    Weft's builders repeat a height where a width is 0, so no uneven attribute here ends in 0."""
    sdpa = F.scaled_dot_product_attention
    qkv = ([2, 3, 5, 8],) * 3
    return {
        "batch_norm": batch_norm(True, [4, 5, 3, 3]),
        "batch_norm_2d": batch_norm(True, [8, 6]),
        "batch_norm_eval": batch_norm(False, [4, 5, 3, 3]),
        "conv2d": conv([2, 3, 6, 5], [4, 3, 3, 3]),
        "conv2d_1x1": conv([2, 6, 4, 4], [5, 6, 1, 1], bias=False),
        "conv2d_stride_pad": conv([2, 3, 7, 8], [4, 3, 3, 3], stride=2, padding=1),
        "conv2d_dilation": conv([2, 3, 9, 8], [4, 3, 3, 3], padding=2, dilation=2),
        "conv2d_groups": conv([2, 4, 6, 6], [6, 2, 3, 3], padding=1, groups=2),
        "conv2d_depthwise": conv([2, 4, 6, 6], [4, 1, 3, 3], stride=2, padding=1, groups=4),
        "conv2d_uneven": conv([2, 4, 9, 10], [6, 2, 3, 2], bias=False, stride=(2, 1), padding=(1, 2),
                              dilation=(2, 1), groups=2),
        "conv_transpose2d": conv_transpose([2, 4, 4, 5], [4, 3, 3, 3]),
        "conv_transpose2d_stride_pad": conv_transpose([2, 4, 4, 4], [4, 3, 4, 4], stride=2, padding=1),
        "conv_transpose2d_output_padding": conv_transpose([2, 4, 4, 5], [4, 3, 3, 3], stride=2, padding=1,
                                                          output_padding=1),
        "conv_transpose2d_dilation": conv_transpose([2, 4, 4, 5], [4, 3, 3, 3], padding=1, dilation=2),
        "conv_transpose2d_groups": conv_transpose([2, 4, 4, 4], [4, 3, 3, 3], groups=2),
        "conv_transpose2d_uneven": conv_transpose([2, 4, 4, 5], [4, 3, 3, 2], bias=False, stride=(2, 3),
                                                  padding=(0, 1), output_padding=(1, 2), dilation=(2, 1),
                                                  groups=2),
        "attention": plain(sdpa, *qkv),
        "attention_causal": plain(sdpa, *qkv, is_causal=True),
        "attention_scale": plain(sdpa, *qkv, scale=0.5),
        "attention_cross": plain(sdpa, [2, 3, 4, 8], [2, 3, 6, 8], [2, 3, 6, 8]),
    }


def attention_cases():
    """op_cases for attention.safetensors: in0 .. in2 are q, k, v, in3 a mask; a mask of indices is bool.
    'hidden X' is a mask of numbers some of which are X."""
    sdpa = F.scaled_dot_product_attention
    q, cross = [2, 4, 5, 8], [2, 4, 7, 8]

    def masked(*shape, kind="", window=None, **kw):
        def function(q, k, v, mask):
            return sdpa(q, k, v, attn_mask=mask.bool() if kind else mask, **kw)
        return ([q, cross, cross, (kind, list(shape)) if kind else list(shape)], function,
                dict(mask="bool" if kind else "numbers", **kw))

    def hidden(low, *shape):
        return [q, cross, cross, (f"hidden {low}", list(shape))], sdpa, dict(mask=f"numbers, some {low}")

    def seen(t, s, window):
        i, j = torch.arange(t)[:, None], torch.arange(s)[None]
        return (j <= i) & (j > i - window)

    def with_seen(window, *specs, **kw):
        def function(q, k, v):
            return sdpa(q, k, v, attn_mask=seen(q.shape[2], k.shape[2], window), **kw)
        return list(specs), function, dict(window=window, **kw)

    def causal_masked(q, k, v, mask):
        return sdpa(q, k, v, attn_mask=mask.bool() & seen(q.shape[2], k.shape[2], 100))
    shared = [2, 2, 7, 8]

    def lower_right(q, k, v):
        """The mask of torch.nn.attention.bias, as numbers of f32 or f64 would be."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # rows without a key
            return sdpa(q, k, v, attn_mask=causal_lower_right(q.shape[2], k.shape[2])._materialize())

    def softcap(q, k, v, mask):
        """As Gemma 2 does: before the mask. flex_attention has no gradient on the CPU."""
        scores = 1.5 * torch.tanh(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) / 1.5)
        return torch.softmax(scores + mask, -1) @ v

    def near(q, k, v):
        """Keys from 2 before a row to 1 after it."""
        i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
        return sdpa(q, k, v, attn_mask=(j >= i - 2) & (j <= i + 1))

    def rotary(shape, base=10000.0, offset=0, dims=0, interleaved=False):
        def function(x):
            n = dims or x.shape[-1]
            angle = (offset + torch.arange(x.shape[-2], dtype=x.dtype))[:, None] * base ** (
                -torch.arange(0, n, 2, dtype=x.dtype) / n)
            cos, sin, head = angle.cos(), angle.sin(), x[..., :n]
            a, b = (head[..., ::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
            parts = [a * cos - b * sin, b * cos + a * sin]
            head = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
            return torch.cat([head, x[..., n:]], -1)
        return [shape], function, dict(base=base, offset=offset, dims=dims, interleaved=interleaved)
    return {
        "bool": masked(5, 7, kind="below 2"),
        "bool_keys": masked(2, 1, 1, 7, kind="below 2"),
        "bool_batch": masked(2, 1, 5, 7, kind="below 2"),
        "bool_head": masked(1, 4, 5, 7, kind="below 2"),
        "bool_few": masked(2, 4, 5, 7, kind="below 2, one row in three is 0"),
        "numbers": masked(5, 7),
        "numbers_keys": masked(2, 1, 1, 7),
        "numbers_batch": masked(2, 1, 5, 7),
        "numbers_head": masked(1, 4, 5, 7),
        "numbers_all": masked(2, 4, 5, 7, scale=0.5),
        "numbers_infinite": hidden("-inf", 2, 1, 5, 7),
        "numbers_lowest": hidden("-3e38", 2, 1, 5, 7),
        "numbers_low": hidden("-1e4", 1, 4, 5, 7),
        "causal_bool": ([q, cross, cross, ("below 2", [2, 1, 1, 7])], causal_masked, dict(is_causal=True)),
        "shared": plain(sdpa, q, shared, shared, enable_gqa=True),
        "shared_one": plain(sdpa, q, [2, 1, 7, 8], [2, 1, 7, 8], enable_gqa=True, is_causal=True),
        "window": with_seen(3, [2, 4, 9, 8], [2, 4, 9, 8], [2, 4, 9, 8]),
        "window_past": with_seen(2, [2, 4, 9, 8], [2, 2, 5, 8], [2, 2, 5, 8], enable_gqa=True),
        "rotary": rotary([2, 3, 9, 8]),
        "rotary_interleaved": rotary([2, 9, 8], base=500.0, offset=11, interleaved=True),
        "rotary_dims": rotary([2, 3, 9, 10], dims=4),
        "wide_values": plain(sdpa, q, cross, [2, 4, 7, 11]),
        "narrow_values": plain(sdpa, q, [2, 2, 7, 8], [2, 2, 7, 3], is_causal=True, enable_gqa=True),
        "lower_right": ([q, cross, cross], lower_right, dict(bias="causal_lower_right")),
        "lower_right_of_few": ([cross, q, q], lower_right, dict(bias="causal_lower_right")),
        "softcap": ([q, cross, [2, 4, 7, 3], [2, 1, 5, 7]], softcap, dict(softcap=1.5, mask="numbers")),
        "window_ahead": ([q, cross, cross], near, dict(left=2, right=1)),
    }


def make_input(spec, gen):
    """One input in f32 (or an index) and whether it has a gradient."""
    how, shape = spec if isinstance(spec, tuple) else ("", spec)
    if how.startswith("below"):
        x = torch.randint(int(how.split()[1].rstrip(",")), shape, generator=gen, dtype=INDEX)
        if "row in three" in how:
            x.view(-1, shape[-1])[::3] = 0
        return x, False
    x = torch.randn(shape, generator=gen)
    if "positive" in how:
        x = x.abs() + 0.5
    elif "hidden" in how:               # each third number of a mask, and two rows unless that rounds the scores away
        low = float(how.split()[1])
        x.view(-1)[::3] = low
        x.view(-1, shape[-1])[1::4] = low if low < -1e30 else 0
    elif len(shape) > 1:
        x *= 1.5                        # both tails of the activations
    return x, "fixed" not in how


def run_op(function, inputs, wants, cotangent, dtype):
    """(out, further outputs, gradients of sum(out * cotangent)) in one dtype."""
    xs = [x.to(dtype) if x.is_floating_point() else x for x in inputs]
    for x, wanted in zip(xs, wants):
        x.requires_grad_(wanted)
    out = function(*xs)
    out, more = out if isinstance(out, tuple) else (out, {})
    if cotangent is None:
        return out.detach(), more, {}
    grads = torch.autograd.grad((out * cotangent.to(dtype)).sum(), [x for x, w in zip(xs, wants) if w])
    return out.detach(), more, dict(zip([i for i, w in enumerate(wants) if w], grads))


def make_ops(folder):
    return make_cases(folder, "ops", op_cases())


def make_attention(folder):
    return make_cases(folder, "attention", attention_cases())


def make_cases(folder, file, cases):
    """Write a file of single ops and print how far PyTorch's own f32 is from it."""
    tensors, about, worst = {}, {}, (0.0, "")
    for seed, (name, (specs, function, attributes)) in enumerate(cases.items()):
        gen = torch.Generator().manual_seed(100 + seed)
        inputs, wants = zip(*(make_input(s, gen) for s in specs))
        shape = run_op(function, inputs, wants, None, torch.float64)[0].shape
        weight = torch.randn(shape, generator=gen)

        named = []
        for dtype in (torch.float64, torch.float32):
            out, more, grads = run_op(function, inputs, wants, weight, dtype)
            named.append({f"{name}.out": out} | {f"{name}.{k}": v for k, v in more.items()}
                         | {f"{name}.grad{i}": v for i, v in grads.items()})
        worst = max([worst] + [(apart(named[1][k], v), k) for k, v in named[0].items()])
        tensors |= {f"{name}.in{i}": x.detach() for i, x in enumerate(inputs)}
        tensors |= {f"{name}.weight": weight} | {k: v.float() for k, v in named[0].items()}
        about[name] = ", ".join(f"{k}={v}" for k, v in attributes.items())
    size = save(tensors, about, folder, file)
    print(f"{file:18} {size:8} f32 is at most {worst[0]:.1e} off ({worst[1]}), {len(about)} cases")
    return worst[0] < LOSS_FLOOR


# ------------------------------------------------------------------------------------- special values
SPECIAL = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 100.0, -100.0, 3e38, -3e38, 3.0, -3.0,
           2.5, -1.5, 6.0]
UNARY = {
    "neg": torch.neg, "abs": torch.abs, "square": torch.square, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal, "exp": torch.exp, "log": torch.log, "tanh": torch.tanh,
    "sigmoid": torch.sigmoid, "relu": F.relu, "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "clamp": lambda x: torch.clamp(x, -1, 0.5), "softplus": lambda x: F.softplus(x, 2, 20),
    "silu": F.silu, "mish": F.mish, "elu": lambda x: F.elu(x, 1.5), "selu": F.selu, "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid, "softsign": F.softsign, "logsigmoid": F.logsigmoid, "erf": torch.erf, "sin": torch.sin,
    "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh, "acosh": torch.acosh, "atanh": torch.atanh, "expm1": torch.expm1, "log1p": torch.log1p, "floor": torch.floor,
    "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "sign": torch.sign,
    "isnan": lambda x: torch.isnan(x).byte(), "isinf": lambda x: torch.isinf(x).byte(),
    "logical_not": lambda x: torch.logical_not(x).byte(),
    "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
BINARY = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "pow": torch.pow, "atan2": torch.atan2,
    "maximum": torch.maximum, "minimum": torch.minimum,
    "equal": lambda a, b: (a == b).byte(), "greater": lambda a, b: (a > b).byte(),
    "not_equal": lambda a, b: (a != b).byte(), "greater_equal": lambda a, b: (a >= b).byte(),
    "less": lambda a, b: (a < b).byte(), "less_equal": lambda a, b: (a <= b).byte(),
    "logical_and": lambda a, b: torch.logical_and(a, b).byte(), "logical_or": lambda a, b: torch.logical_or(a, b).byte(),
    "logical_xor": lambda a, b: torch.logical_xor(a, b).byte(), "fmod": torch.fmod, "remainder": torch.remainder,
}


def make_special(folder):
    """Write special.safetensors: pointwise functions and their gradients of NaN, infinities and extreme numbers."""
    x, tensors = torch.tensor(SPECIAL), {}
    a, b = (t.flatten() for t in torch.meshgrid(x, x, indexing="ij"))
    for name, function, inputs in [(n, f, [x.repeat(8)]) for n, f in UNARY.items()] + [
            (n, f, [a, b]) for n, f in BINARY.items()]:
        inputs = [i.clone().requires_grad_() for i in inputs]
        out = function(*inputs)
        grads = torch.autograd.grad(out.sum(), inputs) if out.requires_grad else []
        tensors |= {f"{name}.in{i}": v for i, v in enumerate(inputs)} | {f"{name}.out": out}
        tensors |= {f"{name}.grad{i}": v for i, v in enumerate(grads)}
    print(f"{'special':18} {save(tensors, {}, folder, 'special'):8}")
    return True


# ------------------------------------------------------------------------------------- the files
def save(tensors, about, folder, name):
    """Write one file and return its size.  The notes are ONE metadata entry, a JSON object, because the
    writer keeps several entries in no fixed order."""
    path = os.path.join(folder, name + ".safetensors")
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, path,
              {"about": json.dumps(dict(about, torch=torch.__version__))})
    return os.path.getsize(path)


OTHERS = {"ops": make_ops, "attention": make_attention, "autocast": make_autocast, "special": make_special}


def main():
    p = argparse.ArgumentParser(description="Write the golden files of the tests.")
    p.add_argument("case", nargs="*", help="default: all of " + ", ".join([*TRAININGS, *OTHERS]))
    p.add_argument("-o", "--output", default=os.path.dirname(os.path.abspath(__file__)), metavar="DIR")
    args = p.parse_args()
    unknown = set(args.case) - {*TRAININGS, *OTHERS}
    if unknown:
        p.error("no such case: " + ", ".join(sorted(unknown)))
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    os.makedirs(args.output, exist_ok=True)
    print(f"{'case':18} {'bytes':>8} {'loss':>8} {'final':>8} {'loss':>8} {'final':>8}")
    print(f"{'':27} {'f32 against f64':>17} {'shaken':>17}  worst tensor in f32")
    fine = True
    for name in args.case or [*TRAININGS, *OTHERS]:
        fine &= OTHERS[name](args.output) if name in OTHERS else make_training(name, args.output)
    if not fine:
        print("a floor is above what a comparison can live with", file=sys.stderr)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
