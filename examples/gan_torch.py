"""gan_torch.py - a GAN of PyTorch modules, trained by Weft with a DDP for each network; the weights go back into the modules:
    python3 examples/gan_torch.py train-images-idx3-ubyte.gz [STEPS]
It runs as any number of ranks: graphtool launch -n 2 -- python3 examples/gan_torch.py ...
    python3 examples/gan_torch.py --save FOLDER     writes gan.bin and gan.safetensors, which graphtool trains without Python"""
import sys

import torch
import weft
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

Z = 64


def bce(logits, target):
    return binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


class DStep(nn.Module):
    """A step is a module that returns its loss. Names of parameters begin with those of its attributes."""

    def __init__(self, generator, discriminator):
        super().__init__()
        self.generator, self.discriminator = generator, discriminator

    def fake(self, image):
        return self.generator(torch.randn(image.shape[0], Z))

    def forward(self, image):
        with torch.no_grad():
            fake = self.fake(image)
        real = image.float()[:, None] / 127.5 - 1
        return bce(self.discriminator(real), 1.0) + bce(self.discriminator(fake), 0.0)


class GStep(DStep):
    def forward(self, image):
        return bce(self.discriminator(self.fake(image)), 1.0)


def networks():
    generator = nn.Sequential(nn.Linear(Z, 7 * 7 * 64), nn.Unflatten(1, (64, 7, 7)), nn.BatchNorm2d(64), nn.ReLU(),
                              nn.ConvTranspose2d(64, 1, 4, 4), nn.Tanh())
    discriminator = nn.Sequential(nn.Conv2d(1, 64, 4, 4), nn.LeakyReLU(0.2), nn.Flatten(), nn.Linear(7 * 7 * 64, 1))
    return generator, discriminator


def build(generator, discriminator):
    m = weft.Model("gan", batch=64)
    image = torch.zeros(64, 28, 28, dtype=torch.uint8)
    adam = weft.Adam(2e-4, beta1=0.5)
    for name, step, network in (("d_step", DStep, "discriminator"), ("g_step", GStep, "generator")):
        m.from_torch(name, step(generator, discriminator), (image,), dynamic={"image": {0: "batch"}}, minimize={network: adam},
                     outputs=[f"{network[0]}_loss"])
    return m


def main():
    torch.manual_seed(0)
    both = DStep(*networks())
    m = build(both.generator, both.discriminator)
    if sys.argv[1] == "--save":
        m.save(f"{sys.argv[2]}/gan.bin")
        store = m.compile().store()
        store.save(f"{sys.argv[2]}/gan.safetensors")
        return
    comm = weft.world()
    t = weft.Trainer(m, train={"image": sys.argv[1]}, iterations=int(sys.argv[2]) if sys.argv[2:] else 200, comm=comm,
                     hooks=[weft.hooks.text()] if comm.rank == 0 else [])
    t.fit()
    weft.to_torch(t.store, both)
    image = both.generator.eval()(torch.randn(1, Z))
    print(f"rank {comm.rank}: an image of mean {image.mean():.4f} by the trained module")


if __name__ == "__main__":
    main()
