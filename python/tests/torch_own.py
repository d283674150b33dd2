"""Small modules of our own for the list of torch_models.py: what users write that is not in a library."""
import torch
import torch.nn.functional as F
from torch import nn


class Generator(nn.Module):
    """DCGAN's for 32 x 32 images."""

    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.ConvTranspose2d(16, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
                                  nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
                                  nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
                                  nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False), nn.Tanh())

    def forward(self, z):
        return self.main(z)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(3, 8, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
                                  nn.Conv2d(8, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.LeakyReLU(0.2, inplace=True),
                                  nn.Conv2d(16, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2, inplace=True),
                                  nn.Conv2d(32, 1, 4, 1, 0, bias=False))

    def forward(self, x):
        return self.main(x).flatten(1).squeeze(1)


class DStep(nn.Module):
    """The discriminator's step: no gradient reaches the generator."""

    def __init__(self):
        super().__init__()
        self.generator, self.discriminator = Generator(), Discriminator()
        self.register_buffer("z", torch.randn(8, 16, 1, 1))

    def forward(self, image):
        with torch.no_grad():
            fake = self.generator(self.z)
        real, false = self.discriminator(image), self.discriminator(fake)
        return F.binary_cross_entropy_with_logits(real, torch.ones_like(real)) + F.binary_cross_entropy_with_logits(false, torch.zeros_like(false))


class GStep(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.discriminator = Generator(), Discriminator()

    def forward(self, z):
        said = self.discriminator(self.generator(z))
        return F.binary_cross_entropy_with_logits(said, torch.ones_like(said))


def two_convs(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(4, b), nn.SiLU(), nn.Conv2d(b, b, 3, padding="same"), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.middle, self.up = two_convs(3, 8), two_convs(8, 16), two_convs(24, 8)
        self.out = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        a = self.down(x)
        b = self.middle(F.max_pool2d(a, 2))
        return self.out(self.up(torch.cat([a, F.interpolate(b, scale_factor=2, mode="bilinear")], 1)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(6, 10, 2, batch_first=True, bidirectional=True), nn.Linear(20, 3)

    def forward(self, x):
        h, (last, cell) = self.lstm(x)
        return self.out(h), last.mean() + cell.mean()


class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru, self.out = nn.GRU(6, 10, 2, batch_first=True), nn.Linear(10, 3)

    def forward(self, x):
        h, last = self.gru(x, torch.zeros(2, x.shape[0], 10, dtype=x.dtype) + 0.1)
        return self.out(h[:, -1]) + last[0].sum(1, keepdim=True)


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.RNN(6, 10, batch_first=True, nonlinearity="relu"), nn.Linear(10, 3)

    def forward(self, x):
        return self.out(self.rnn(x)[0])


class SpectralNorm(nn.Module):
    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        self.conv, self.fc = norm(nn.Conv2d(3, 6, 3)), norm(nn.Linear(6 * 36, 4))

    def forward(self, x):
        return self.fc(F.leaky_relu(self.conv(x), 0.1).flatten(1))


class WeightNorm(nn.Module):
    def __init__(self):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.conv, self.fc = norm(nn.Conv2d(3, 6, 3)), norm(nn.Linear(6 * 36, 4))

    def forward(self, x):
        return self.fc(F.elu(self.conv(x)).flatten(1))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1]).to(target.dtype)
        return self.transformer(source, target, tgt_mask=mask, tgt_is_causal=True)


class Indexing(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)
        self.register_buffer("order", torch.tensor([4, 2, 0]), persistent=False)

    def forward(self, x):
        y = self.fc(x)
        a = y[:, ::2] * y[:, 1::2].mean(1, keepdim=True)
        b = y[:, self.order] + y[:, [0, 0, 3]]
        c = y[torch.arange(x.shape[0]), torch.arange(x.shape[0]) % 7]
        y = y.clone()
        y[:, 2:4] = y[:, 2:4] * 2
        y[:, -1, 0] += 1
        return a, b.flip(1).roll(1, 0), c, y


class InPlaceByMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x):
        y = self.fc(x)
        y[y > 0.5] += 1
        return y


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.fc, self.out = nn.Embedding(99, 16), nn.Linear(16, 16), nn.Linear(16, 99, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, ids):
        return self.out(torch.tanh(self.fc(self.embedding(ids))))


class TeacherStudent(nn.Module):
    """A student that follows a fixed teacher, whose norm is in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.teacher = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.student = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.teacher.requires_grad_(False)

    def train(self, on=True):
        super().train(on)
        self.teacher.eval()
        return self

    def forward(self, x):
        with torch.no_grad():
            aim = (self.teacher(x) / 0.5).softmax(-1)
        return -(aim * F.log_softmax(self.student(x), -1)).sum(-1).mean()


class Buffers(nn.Module):
    """State that a module keeps by itself."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)
        self.register_buffer("center", torch.zeros(4))
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        y = self.fc(x)
        self.center.mul_(0.9).add_(y.detach().mean(0), alpha=0.1)
        self.seen += 1
        return y - self.center


class Losses(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, x, y, label):
        p = self.fc(x)
        one = F.cross_entropy(p, label, label_smoothing=0.1) + F.mse_loss(p, y) + F.l1_loss(p, y) + F.smooth_l1_loss(p, y, beta=0.5) + F.huber_loss(p, y)
        two = F.nll_loss(F.log_softmax(p, 1), label) + F.kl_div(F.log_softmax(p, 1), y.softmax(1), reduction="batchmean")
        return one + two + F.binary_cross_entropy(p.sigmoid(), y.sigmoid()) + F.cosine_similarity(p, y).mean() + F.normalize(p).sum(), F.cross_entropy(p, y.softmax(1))


class Activations(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.prelu = nn.Linear(12, 12), nn.PReLU(12)

    def forward(self, x):
        x = self.fc(x)
        with_one = [F.relu, F.relu6, F.gelu, F.silu, F.mish, F.elu, F.selu, F.celu, F.softplus, F.softsign, F.hardswish, F.hardsigmoid, F.hardtanh, F.logsigmoid,
                    F.leaky_relu, F.tanhshrink, F.softshrink, F.hardshrink, torch.sigmoid, torch.tanh, self.prelu]
        return torch.stack([f(x) for f in with_one]) + F.gelu(x, approximate="tanh") + F.softmin(x, 1), F.glu(x)


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8, affine=False), nn.BatchNorm2d(8, track_running_stats=False), nn.GroupNorm(2, 8), nn.InstanceNorm2d(8),
                                    nn.InstanceNorm2d(8, affine=True), nn.LayerNorm([8, 8]), nn.LayerNorm(8, elementwise_affine=False), nn.RMSNorm(8), nn.LocalResponseNorm(3)])
        self.conv = nn.Conv2d(8, 8, 1)

    def forward(self, x):
        x = self.conv(x)
        return torch.stack([n(x) for n in self.norms])


class Scatter(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x, i):
        y = self.fc(x)
        return y.gather(1, i), torch.zeros_like(y).scatter_add(1, i, y[:, :3]), y.cumsum(1), y.sort(1)[0], y.topk(2, 1)[0], y.index_select(1, i[0])
