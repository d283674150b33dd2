"""twins.py - the zoo's models in PyTorch, at the sizes of zoo_curve.c. A twin has the parameter names of Weft's model,
and one method for each training graph, which takes a data.Step and gives the graph's outputs; the first is the loss,
and `optimizers` has who trains what."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

PLAIN = dict(foreach=False)


def children(**modules):
    m = nn.Module()
    for name, child in modules.items():
        m.add_module(name, child)
    return m


def pixels(step, batch, mean=0.0, deviation=1.0):
    image = step.integers("image", 256, batch, 28, 28).to(torch.get_default_dtype())
    return (image / 255 - mean) / deviation


class VAE(nn.Module):
    """https://github.com/pytorch/examples: vae, with the mean over the images."""

    def __init__(self):
        super().__init__()
        wide = 400 // 4
        self.encoder = children(fc1=nn.Linear(784, wide), mu=nn.Linear(wide, 20), logvar=nn.Linear(wide, 20))
        self.decoder = children(fc1=nn.Linear(20, wide), fc2=nn.Linear(wide, 784))

    def optimizers(self):
        return {"train": torch.optim.Adam(self.parameters(), 1e-3, **PLAIN)}

    def train_graph(self, step):
        x = pixels(step, 16).flatten(1)
        h = F.relu(self.encoder.fc1(x))
        mu, logvar = self.encoder.mu(h), self.encoder.logvar(h)
        z = mu + torch.exp(0.5 * logvar) * step.normal(16, 20)
        logits = self.decoder.fc2(F.relu(self.decoder.fc1(z)))
        bce = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / 16
        kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp()) / 16
        return {"loss": bce + kl, "reconstruction_loss": bce, "kl_loss": kl}


class WganGp(nn.Module):
    """Gulrajani et al., algorithm 1, with one step of the critic each."""

    def __init__(self):
        super().__init__()
        wide, narrow = 128 // 8, 64 // 8
        self.generator = children(fc=nn.Linear(128, 49 * wide), bn1=nn.BatchNorm2d(wide),
                                  up1=nn.ConvTranspose2d(wide, wide // 2, 4, 2, 1), bn2=nn.BatchNorm2d(wide // 2),
                                  up2=nn.ConvTranspose2d(wide // 2, 1, 4, 2, 1))
        self.critic = children(conv1=nn.Conv2d(1, narrow, 4, 2, 1), conv2=nn.Conv2d(narrow, wide, 4, 2, 1),
                               norm2=nn.LayerNorm([wide, 7, 7]), fc=nn.Linear(49 * wide, 1))

    def optimizers(self):
        adam = dict(lr=1e-6, betas=(0.0, 0.9), **PLAIN)
        return {"d_step": torch.optim.Adam(self.critic.parameters(), **adam),
                "g_step": torch.optim.Adam(self.generator.parameters(), **adam)}

    def images(self, step):
        g = self.generator
        z = F.relu(g.bn1(g.fc(step.normal(8, 128)).reshape(8, -1, 7, 7)))
        return torch.tanh(g.up2(F.relu(g.bn2(g.up1(z)))))

    def score(self, x):
        c = self.critic
        x = F.leaky_relu(c.conv1(x), 0.2)
        x = c.conv2(x)
        x = F.leaky_relu(c.norm2(x), 0.2)
        return c.fc(x.flatten(1))

    def d_step_graph(self, step):
        real, fake = pixels(step, 8, 0.5, 0.5).unsqueeze(1), self.images(step).detach()
        x = (fake + step.random(8, 1, 1, 1) * (real - fake)).requires_grad_()
        slope, = torch.autograd.grad(self.score(x).sum(), x, create_graph=True)
        penalty = ((slope.flatten(1).square().sum(1).sqrt() - 1) ** 2).mean()
        return {"d_loss": self.score(fake).mean() - self.score(real).mean() + 10 * penalty, "penalty_loss": penalty}

    def g_step_graph(self, step):
        return {"g_loss": -self.score(self.images(step)).mean()}


def conv_bn(out, kernel, stride, groups, into):
    return [nn.Conv2d(into, out, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(out)]


class InvertedResidual(nn.Module):
    def __init__(self, into, expand, out, stride):
        super().__init__()
        middle, layers = into * expand, []
        if expand > 1:
            layers.append(nn.Sequential(*conv_bn(middle, 1, 1, 1, into), nn.ReLU6()))
        layers.append(nn.Sequential(*conv_bn(middle, 3, stride, middle, middle), nn.ReLU6()))
        self.conv = nn.Sequential(*layers, *conv_bn(out, 1, 1, 1, middle))
        self.is_residual = stride == 1 and into == out

    def forward(self, x):
        return x + self.conv(x) if self.is_residual else self.conv(x)


class ImageNet(nn.Module):
    """A classifier of images [batch, 3, 224, 224] in 1,000 classes."""

    def train_graph(self, step):
        x, target = step.floats("image", self.batch, 3, 224, 224), step.integers("label", 1000, self.batch)
        return {"loss": F.cross_entropy(self.logits(x, step), target)}


class MobileNetV2(ImageNet):
    """Names and order as torchvision's."""
    batch = 8

    def __init__(self):
        super().__init__()
        narrow = lambda n: n // 8 if n >= 8 else n
        into = narrow(32)
        features = [nn.Sequential(*conv_bn(into, 3, 2, 1, 3), nn.ReLU6())]
        for t, c, n, s in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                           (6, 320, 1, 1)):
            for i in range(n):
                features.append(InvertedResidual(into, t, narrow(c), s if i == 0 else 1))
                into = narrow(c)
        features.append(nn.Sequential(*conv_bn(narrow(1280), 1, 1, 1, into), nn.ReLU6()))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Identity(), nn.Linear(narrow(1280), 1000))

    def optimizers(self):
        return {"train": torch.optim.SGD(self.parameters(), 1e-5, momentum=0.9, **PLAIN)}

    def logits(self, x, step):
        return self.classifier(step.dropout(self.features(x).mean((2, 3)), 0.2))


class ViTBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d, eps=1e-6), nn.LayerNorm(d, eps=1e-6)
        self.attn = children(qkv=nn.Linear(d, 3 * d), proj=nn.Linear(d, d))
        self.mlp = children(fc1=nn.Linear(d, 4 * d), fc2=nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.attn.qkv(self.norm1(x)).reshape(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        x = x + self.attn.proj(y)
        return x + self.mlp.fc2(F.gelu(self.mlp.fc1(self.norm2(x))))


class ViTTiny(ImageNet):
    """Names as timm's vit_tiny_patch16_224."""
    batch = 2

    def __init__(self):
        super().__init__()
        d = 192 // 4
        self.cls_token, self.pos_embed = nn.Parameter(torch.zeros(1, 1, d)), nn.Parameter(torch.zeros(1, 197, d))
        self.patch_embed = children(proj=nn.Conv2d(3, d, 16, 16))
        self.blocks = nn.Sequential(*(ViTBlock(d, 3) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(d, eps=1e-6), nn.Linear(d, 1000)

    def optimizers(self):
        return {"train": torch.optim.AdamW(self.parameters(), 5e-4, weight_decay=0.05, **PLAIN)}

    def logits(self, x, step):
        x = self.patch_embed.proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class BertLayer(nn.Module):
    def __init__(self, d, norm):
        super().__init__()
        self.attention = children(output=children(dense=nn.Linear(d, d), LayerNorm=norm()))
        self.attention.add_module("self", children(query=nn.Linear(d, d), key=nn.Linear(d, d), value=nn.Linear(d, d)))
        self.intermediate = children(dense=nn.Linear(d, 4 * d))
        self.output = children(dense=nn.Linear(4 * d, d), LayerNorm=norm())

    def forward(self, x, mask, step):
        b, t, d = x.shape
        own, out = getattr(self.attention, "self"), self.attention.output
        q, k, v = (f(x).reshape(b, t, 2, -1).transpose(1, 2) for f in (own.query, own.key, own.value))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(b, t, d)
        x = out.LayerNorm(step.dropout(out.dense(y), 0.1) + x)
        y = self.output.dense(F.gelu(self.intermediate.dense(x)))
        return self.output.LayerNorm(step.dropout(y, 0.1) + x)


class BertTiny(nn.Module):
    """Names as transformers' BertForMaskedLM; the attention's weights are not dropped out."""

    def __init__(self):
        super().__init__()
        d, words = 128 // 2, 30522
        norm = lambda: nn.LayerNorm(d, eps=1e-12)
        self.bert = children(
            embeddings=children(word_embeddings=nn.Embedding(words, d), position_embeddings=nn.Embedding(512, d),
                                token_type_embeddings=nn.Embedding(2, d), LayerNorm=norm()),
            encoder=children(layer=nn.ModuleList(BertLayer(d, norm) for _ in range(2))))
        self.cls = children(predictions=children(transform=children(dense=nn.Linear(d, d), LayerNorm=norm())))
        self.cls.predictions.bias = nn.Parameter(torch.zeros(words))

    def optimizers(self):
        plain = [p for n, p in self.named_parameters() if n.endswith("bias") or "LayerNorm" in n]
        decay = [p for n, p in self.named_parameters() if not (n.endswith("bias") or "LayerNorm" in n)]
        return {"train": torch.optim.AdamW([{"params": decay}, {"params": plain, "weight_decay": 0.0}], 1e-4,
                                           weight_decay=0.01, **PLAIN)}

    def train_graph(self, step):
        tokens, target = step.integers("tokens", 30522, 2, 128), step.integers("target", 30522, 2, 128)
        mask, e = step.booleans("mask", 2, 128).reshape(2, 1, 1, 128), self.bert.embeddings
        x = e.word_embeddings(tokens) + e.token_type_embeddings.weight[:1] + e.position_embeddings.weight[:128]
        x = step.dropout(e.LayerNorm(x), 0.1)
        for layer in self.bert.encoder.layer:
            x = layer(x, mask, step)
        p = self.cls.predictions
        x = p.transform.LayerNorm(F.gelu(p.transform.dense(x)))
        logits = F.linear(x, e.word_embeddings.weight, p.bias)
        return {"loss": F.cross_entropy(logits.flatten(0, 1), target.flatten())}


class LstmChar(nn.Module):
    """The layers apart, for the dropout between them, which Weft draws with the times first. No gradient is so long that
    it would be clipped."""

    def __init__(self):
        super().__init__()
        d = 256 // 8
        self.net = children(wte=nn.Embedding(65, 128 // 8), lstm=nn.LSTM(128 // 8, d, 2), head=nn.Linear(d, 65))

    def optimizers(self):
        return {"train": torch.optim.Adam(self.parameters(), 2e-3, **PLAIN)}

    def layer(self, x, k):
        zeros = x.new_zeros(1, x.shape[1], 256 // 8)
        weights = [getattr(self.net.lstm, f"{name}_l{k}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
        return torch._VF.lstm(x, (zeros, zeros), weights, True, 1, 0.0, True, False, False)[0]

    def train_graph(self, step):
        tokens, target = step.integers("tokens", 65, 8, 64), step.integers("target", 65, 8, 64)
        x = self.layer(self.net.wte(tokens).transpose(0, 1), 0)
        x = self.layer(step.dropout(x, 0.2), 1).transpose(0, 1)
        return {"loss": F.cross_entropy(self.net.head(x).flatten(0, 1), target.flatten())}


class LlamaLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        linear = lambda a, b: nn.Linear(a, b, bias=False)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(d, eps=1e-5), nn.RMSNorm(d, eps=1e-5)
        self.self_attn = children(q_proj=linear(d, d), k_proj=linear(d, d // 3), v_proj=linear(d, d // 3),
                                  o_proj=linear(d, d))
        self.mlp = children(gate_proj=linear(d, d * 8 // 3), up_proj=linear(d, d * 8 // 3),
                            down_proj=linear(d * 8 // 3, d))

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        own, width = self.self_attn, d // 6

        def turned(y):
            half = torch.cat([-y[..., width // 2:], y[..., :width // 2]], -1)
            return y * cos + half * sin

        y = self.input_layernorm(x)
        q, k, v = (f(y).reshape(b, t, -1, width).transpose(1, 2) for f in (own.q_proj, own.k_proj, own.v_proj))
        y = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True, enable_gqa=True)
        x = x + own.o_proj(y.transpose(1, 2).reshape(b, t, d))
        y = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(y)) * self.mlp.up_proj(y))


class LlamaTiny(nn.Module):
    """Names as transformers' LlamaForCausalLM."""

    def __init__(self):
        super().__init__()
        self.d = d = 288 // 4
        self.model = children(embed_tokens=nn.Embedding(32000, d), norm=nn.RMSNorm(d, eps=1e-5),
                              layers=nn.ModuleList(LlamaLayer(d) for _ in range(6)))
        self.lm_head = nn.Linear(d, 32000, bias=False)

    def optimizers(self):
        norms = [p for n, p in self.named_parameters() if "norm" in n]
        decay = [p for n, p in self.named_parameters() if "norm" not in n]
        self.clipped = norms + decay
        return {"train": torch.optim.AdamW([{"params": decay}, {"params": norms, "weight_decay": 0.0}], 5e-4,
                                           betas=(0.9, 0.95), weight_decay=0.1, **PLAIN)}

    def train_graph(self, step):
        tokens, target = step.integers("tokens", 32000, 1, 256), step.integers("target", 32000, 1, 256)
        width = self.d // 6
        speed = 10000.0 ** (-torch.arange(width // 2, dtype=torch.float64) * 2 / width)
        angle = torch.arange(256, dtype=torch.float64)[:, None] * torch.cat([speed, speed])
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, angle.cos().float(), angle.sin().float())
        return {"loss": F.cross_entropy(self.lm_head(self.model.norm(x)).flatten(0, 1), target.flatten())}


class ResBlock(nn.Module):
    def __init__(self, into, out, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, into), nn.GroupNorm(8, out)
        self.conv1, self.conv2 = nn.Conv2d(into, out, 3, 1, 1), nn.Conv2d(out, out, 3, 1, 1)
        self.time = nn.Linear(time, out)
        if into != out:
            self.past = nn.Conv2d(into, out, 1)

    def forward(self, x, time, step):
        y = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        y = self.conv2(step.dropout(F.silu(self.norm2(y)), 0.1))
        return y + (self.past(x) if hasattr(self, "past") else x)


class PixelAttention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(8, c)
        self.q, self.k, self.v, self.proj = (nn.Conv2d(c, c, 1) for _ in range(4))

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (f(y).flatten(2).transpose(1, 2).unsqueeze(1) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v).squeeze(1).transpose(1, 2).reshape(x.shape)
        return x + self.proj(y)


class UNetDdpm(nn.Module):
    """Ho et al., algorithm 1."""

    def __init__(self):
        super().__init__()
        widths, t = [64 // 8, 128 // 8, 128 // 8], 4 * 64 // 8
        self.d = widths[0]
        self.unet = u = children(time=children(fc1=nn.Linear(self.d, t), fc2=nn.Linear(t, t)),
                                 mid1=ResBlock(widths[2], widths[2], t), attn=PixelAttention(widths[2]),
                                 mid2=ResBlock(widths[2], widths[2], t), norm=nn.GroupNorm(8, widths[0]),
                                 out=nn.Conv2d(widths[0], 3, 3, 1, 1))
        u.add_module("in", nn.Conv2d(3, widths[0], 3, 1, 1))
        for i, w in enumerate(widths):
            down = children(res=ResBlock(widths[max(i - 1, 0)], w, t))
            up = children(res=ResBlock(w + widths[min(i + 1, 2)], w, t))
            if i < 2:
                down.add_module("shrink", nn.Conv2d(w, w, 3, 2, 1))
            if i == 1:
                down.add_module("attn", PixelAttention(w))
                up.add_module("attn", PixelAttention(w))
            if i:
                up.add_module("grow", nn.Conv2d(w, w, 3, 1, 1))
            u.add_module(f"down{i}", down)
            u.add_module(f"up{i}", up)

    def optimizers(self):
        self.clipped = list(self.parameters())
        return {"train": torch.optim.Adam(self.parameters(), 2e-4, **PLAIN)}

    def guess(self, x, t, step):
        u, kept = self.unet, []
        speed = torch.exp(torch.arange(self.d // 2).float() * (-math.log(10000) / (self.d / 2)))
        angle = t[:, None] * speed
        time = F.silu(u.time.fc1(torch.cat([angle.sin(), angle.cos()], 1)))
        time = F.silu(u.time.fc2(time))
        x = getattr(u, "in")(x)
        for i in range(3):
            down = getattr(u, f"down{i}")
            x = down.res(x, time, step)
            x = down.attn(x) if i == 1 else x
            kept.append(x)
            x = down.shrink(x) if i < 2 else x
        x = u.mid2(u.attn(u.mid1(x, time, step)), time, step)
        for i in (2, 1, 0):
            up = getattr(u, f"up{i}")
            x = up.res(torch.cat([x, kept[i]], 1), time, step)
            x = up.attn(x) if i == 1 else x
            x = up.grow(F.interpolate(x, scale_factor=2)) if i else x
        return u.out(F.silu(u.norm(x)))

    def train_graph(self, step):
        x = step.floats("image", 4, 3, 32, 32)
        t = torch.floor(step.random(4) * 1000)
        noise = step.normal(4, 3 * 32 * 32).reshape(4, 3, 32, 32)
        share = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)[t.long()][:, None, None, None]
        guess = self.guess(share.sqrt() * x + (1 - share).sqrt() * noise, t, step)
        return {"loss": F.mse_loss(guess, noise)}


class Network(nn.Module):
    """Encoder and projector of BYOL and of SimCLR, and of BYOL's online network the predictor."""

    def __init__(self, is_online=False):
        super().__init__()
        for i, (a, b) in enumerate(((3, 8), (8, 16), (16, 32)), 1):
            self.add_module(f"block{i}", children(conv=nn.Conv2d(a, b, 3, 1 if i == 1 else 2, 1, bias=False),
                                                  bn=nn.BatchNorm2d(b)))
        head = lambda n: children(fc1=nn.Linear(n, 64), bn=nn.BatchNorm1d(64), fc2=nn.Linear(64, 16))
        self.projector = head(32)
        if is_online:
            self.predictor = head(16)

    def head(self, h, x):
        return h.fc2(F.relu(h.bn(h.fc1(x))))

    def forward(self, x):
        for i in (1, 2, 3):
            block = getattr(self, f"block{i}")
            x = F.relu(block.bn(block.conv(x)))
        x = self.head(self.projector, x.mean((2, 3)))
        return self.head(self.predictor, x) if hasattr(self, "predictor") else x


class Byol(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.target = Network(True), Network(False)

    def optimizers(self):
        return {"train": torch.optim.SGD(self.online.parameters(), 1e-5, **PLAIN), "teacher": None}

    def distance(self, seen, other):
        return 2 - 2 * F.cosine_similarity(self.online(seen), self.target(other).detach()).mean()

    def train_graph(self, step):
        a, b = step.floats("view_a", 32, 3, 32, 32), step.floats("view_b", 32, 3, 32, 32)
        return {"loss": self.distance(a, b) + self.distance(b, a)}

    @torch.no_grad()
    def teacher_graph(self, step):
        own = dict(self.online.named_parameters())
        for name, p in self.target.named_parameters():
            p.mul_(0.99).add_(own[name] * (1 - 0.99))
        return {}


class SimClr(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Network()

    def optimizers(self):
        return {"train": torch.optim.SGD(self.net.parameters(), 1e-5, **PLAIN)}

    def train_graph(self, step):
        z = [F.normalize(self.net(step.floats(name, 16, 3, 32, 32)), dim=-1) for name in ("view_a", "view_b")]
        logits = torch.cat(z) @ torch.cat(z).T / 0.5
        logits.fill_diagonal_(-1e9)
        return {"loss": F.cross_entropy(logits, torch.arange(32).roll(16))}


class MocoNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        for i, (a, b) in enumerate(((3, 8), (8, 16), (16, 32)), 1):
            self.add_module(f"block{i}", children(conv=nn.Conv2d(a, b, 3, 1 if i == 1 else 2, 1, bias=False),
                                                  norm=nn.GroupNorm(8, b)))
        self.head = children(fc1=nn.Linear(32, 64), fc2=nn.Linear(64, 16))

    def forward(self, x):
        for i in (1, 2, 3):
            block = getattr(self, f"block{i}")
            x = F.relu(block.norm(block.conv(x)))
        return F.normalize(self.head.fc2(F.relu(self.head.fc1(x.mean((2, 3))))), dim=-1)


class Moco(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key = MocoNetwork(), MocoNetwork()
        self.register_buffer("queue", torch.zeros(4096, 16))
        self.register_buffer("has_run", torch.zeros(()))

    def optimizers(self):
        return {"key": None, "train": torch.optim.SGD(self.query.parameters(), 1e-5, **PLAIN)}

    def train_graph(self, step):
        q = self.query(step.floats("view_a", 16, 3, 32, 32))
        k = self.key(step.floats("view_b", 16, 3, 32, 32)).detach()
        others = q @ F.normalize(self.queue, dim=-1).T
        logits = torch.cat([(q * k).sum(1, keepdim=True), others], 1) / 0.07
        self.queue = torch.cat([k, self.queue])[:4096]
        return {"loss": F.cross_entropy(logits, torch.zeros(16, dtype=torch.int64))}

    @torch.no_grad()
    def key_graph(self, step):
        own = dict(self.query.named_parameters())
        for name, p in self.key.named_parameters():
            p.mul_(0.999 * self.has_run).add_(own[name] * (1 - 0.999 * self.has_run))
        self.has_run.fill_(1)
        return {}


class DinoBlock(nn.Module):
    def __init__(self, d=24, heads=2):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class DinoNetwork(nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.cls_token, self.pos_embed = nn.Parameter(torch.zeros(1, 1, d)), nn.Parameter(torch.zeros(1, d, 8, 8))
        self.patch_embed = nn.Conv2d(3, d, 4, 4)
        self.block1, self.block2, self.block3, self.block4 = (DinoBlock() for _ in range(4))
        self.norm = nn.LayerNorm(d)
        last = nn.utils.parametrizations.weight_norm(nn.Linear(16, 512, bias=False))
        self.head = children(fc1=nn.Linear(d, 64), fc2=nn.Linear(64, 16), last=last)

    def forward(self, x):
        x = self.patch_embed(x)
        places = self.pos_embed
        if x.shape[2] != 8:
            places = F.interpolate(places, size=x.shape[2:], mode="bilinear")
        x = (x + places).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1)
        x = self.norm(self.block4(self.block3(self.block2(self.block1(x)))))[:, 0]
        x = self.head.fc2(F.gelu(self.head.fc1(x)))
        return self.head.last(F.normalize(x, dim=-1))


class Dino(nn.Module):
    def __init__(self):
        super().__init__()
        self.student, self.teacher = DinoNetwork(), DinoNetwork()
        self.register_buffer("centre", torch.zeros(512))
        self.register_buffer("has_run", torch.zeros(()))

    def optimizers(self):
        self.student.head.last.parametrizations.weight.original0.requires_grad_(False)
        return {"teacher": None, "train": torch.optim.SGD(self.student.parameters(), 1e-5, **PLAIN)}

    def train_graph(self, step):
        crops = [step.floats(f"crop{i}", 8, 3, *((32, 32) if i < 2 else (16, 16))) for i in range(6)]
        temperature = 1 + 0.25 * step.floats("teacher_temp")
        with torch.no_grad():
            seen = [self.teacher(c) for c in crops[:2]]
        wanted = [F.softmax((y - self.centre) / temperature, -1) for y in seen]
        said = [F.log_softmax(self.student(c) / 0.1, -1) for c in crops]
        loss = sum(-(wanted[i] * said[k]).sum(-1).mean() for i in range(2) for k in range(6) if i != k) / 10
        self.centre = 0.9 * self.centre + (1 - 0.9) * torch.cat(seen).mean(0)
        return {"loss": loss}

    @torch.no_grad()
    def teacher_graph(self, step):
        own = dict(self.student.named_parameters())
        keep = self.has_run * (1 + 0.25 * step.floats("momentum"))
        for name, p in self.teacher.named_parameters():
            p.mul_(keep).add_(own[name] * (1 - keep))
        self.has_run.fill_(1)
        return {}


def rotated(x):
    t, width = x.shape[-2:]
    speed = 10000.0 ** (-torch.arange(width // 2, dtype=x.dtype) * 2 / width)
    angle = torch.arange(t, dtype=x.dtype)[:, None] * torch.cat([speed, speed])
    return x * angle.cos() + torch.cat([-x[..., width // 2:], x[..., :width // 2]], -1) * angle.sin()


class MoeLayer(nn.Module):
    """Token by token, and expert by expert: another way than the model's slots."""
    E, K, CAPACITY, HEADS = 8, 2, 20, 4

    def __init__(self, d=32):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(d, eps=2.0 ** -23), nn.RMSNorm(d, eps=2.0 ** -23)
        self.qkv, self.proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.router = nn.Linear(d, self.E, bias=False)
        self.w1, self.w2 = nn.Parameter(torch.zeros(self.E, d, 2 * d)), nn.Parameter(torch.zeros(self.E, 2 * d, d))

    def attention(self, x):
        n, t, d = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.HEADS, d // self.HEADS).permute(2, 0, 3, 1, 4)
        x = F.scaled_dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
        return self.proj(x.transpose(1, 2).reshape(n, t, d))

    def mixture(self, x):
        n, t, d = x.shape
        logits = self.router(x)
        probabilities = logits.softmax(-1)
        weight, chosen = probabilities.topk(self.K, -1)
        weight = weight / weight.sum(-1, keepdim=True)
        share = F.one_hot(chosen[..., 0], self.E).to(x.dtype).mean((0, 1))
        loss = 0.01 * self.E * (share * probabilities.mean((0, 1))).sum() + 0.001 * logits.logsumexp(-1).square().mean()
        rows = []
        for b in range(n):
            y, taken = [torch.zeros(d) for _ in range(t)], [0] * self.E
            for k in range(self.K):
                for i in range(t):
                    e = chosen[b, i, k].item()
                    taken[e] += 1
                    if taken[e] <= self.CAPACITY:
                        y[i] = y[i] + weight[b, i, k] * (F.gelu(x[b, i] @ self.w1[e]) @ self.w2[e])
            rows.append(torch.stack(y))
        return torch.stack(rows), loss

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        y, loss = self.mixture(self.norm2(x))
        return x + y, loss


class Moe(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.wte, self.norm, self.head = nn.Embedding(65, d), nn.RMSNorm(d, eps=2.0 ** -23), nn.Linear(d, 65, bias=False)
        self.layer0, self.layer1, self.layer2, self.layer3 = (MoeLayer() for _ in range(4))

    def optimizers(self):
        self.clipped = list(self.parameters())
        return {"train": torch.optim.AdamW(self.parameters(), 3e-4, weight_decay=0.1, **PLAIN)}

    def train_graph(self, step):
        x, router = self.wte(step.integers("tokens", 65, 8, 64)), 0
        for i in range(4):
            x, loss = getattr(self, f"layer{i}")(x)
            router = router + loss
        words = F.cross_entropy(self.head(self.norm(x)).reshape(-1, 65), step.integers("target", 65, 8, 64).reshape(-1))
        return {"loss": words + router, "router_loss": router}


def cycle_generator(wide=8, blocks=6):
    """pytorch-CycleGAN's resnet_6blocks and, below, its basic discriminator, with instance norm and no dropout."""
    layers, norm = [nn.ReflectionPad2d(3), nn.Conv2d(3, wide, 7), nn.InstanceNorm2d(wide), nn.ReLU()], nn.InstanceNorm2d
    for a, b in ((wide, 2 * wide), (2 * wide, 4 * wide)):
        layers += [nn.Conv2d(a, b, 3, 2, 1), norm(b), nn.ReLU()]
    layers += [CycleBlock(4 * wide) for _ in range(blocks)]
    for a, b in ((4 * wide, 2 * wide), (2 * wide, wide)):
        layers += [nn.ConvTranspose2d(a, b, 3, 2, 1, 1), norm(b), nn.ReLU()]
    return children(model=nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(wide, 3, 7), nn.Tanh()))


class CycleBlock(nn.Module):
    def __init__(self, d):
        super().__init__()
        half = lambda: [nn.ReflectionPad2d(1), nn.Conv2d(d, d, 3), nn.InstanceNorm2d(d)]
        self.conv_block = nn.Sequential(*half(), nn.ReLU(), *half())

    def forward(self, x):
        return x + self.conv_block(x)


def cycle_discriminator(wide=8):
    layers = [nn.Conv2d(3, wide, 4, 2, 1), nn.LeakyReLU(0.2)]
    for a, b, stride in ((wide, 2 * wide, 2), (2 * wide, 4 * wide, 2), (4 * wide, 8 * wide, 1)):
        layers += [nn.Conv2d(a, b, 4, stride, 1), nn.InstanceNorm2d(b), nn.LeakyReLU(0.2)]
    return children(model=nn.Sequential(*layers, nn.Conv2d(8 * wide, 1, 4, 1, 1)))


class CycleGan(nn.Module):
    """In the order of pytorch-CycleGAN's optimize_parameters(): the generators' step, then the discriminators'
    on the images that were made before it."""

    def __init__(self):
        super().__init__()
        self.G_A, self.G_B = cycle_generator(), cycle_generator()
        self.D_A, self.D_B = cycle_discriminator(), cycle_discriminator()
        adam = dict(lr=2e-7, betas=(0.5, 0.999), **PLAIN)
        self.makers = torch.optim.Adam([*self.G_A.parameters(), *self.G_B.parameters()], **adam)
        self.judges = torch.optim.Adam([*self.D_A.parameters(), *self.D_B.parameters()], **adam)

    def optimizers(self):
        return {"train": None}  # it takes its steps itself

    def train_graph(self, step):
        a, b = step.floats("a", 2, 3, 64, 64), step.floats("b", 2, 3, 64, 64)
        g_a, g_b, d_a, d_b = self.G_A.model, self.G_B.model, self.D_A.model, self.D_B.model
        miss = lambda answer, target: F.mse_loss(answer, torch.full_like(answer, target))
        fake_b, fake_a = g_a(a), g_b(b)
        cycle = F.l1_loss(g_b(fake_b), a) + F.l1_loss(g_a(fake_a), b)
        identity = F.l1_loss(g_a(b), b) + F.l1_loss(g_b(a), a)
        g_loss = miss(d_a(fake_b), 1.0) + miss(d_b(fake_a), 1.0) + 10 * cycle + 5 * identity
        self.makers.zero_grad()
        g_loss.backward()
        self.makers.step()

        d_loss = 0
        self.judges.zero_grad()
        for d, real, fake in ((d_a, b, fake_b), (d_b, a, fake_a)):
            loss = (miss(d(real), 1.0) + miss(d(fake.detach()), 0.0)) / 2
            loss.backward()
            d_loss = d_loss + loss
        self.judges.step()
        return {"g_loss": g_loss, "cycle_loss": cycle, "identity_loss": identity, "d_loss": d_loss}


TWINS = {"vae": VAE, "wgan_gp": WganGp, "mobilenet_v2": MobileNetV2, "vit_tiny": ViTTiny, "bert_tiny": BertTiny,
         "lstm_char": LstmChar, "llama_tiny": LlamaTiny, "unet_ddpm": UNetDdpm, "byol": Byol,
         "simclr": SimClr, "moco": Moco, "dino": Dino, "moe": Moe, "cyclegan": CycleGan}
