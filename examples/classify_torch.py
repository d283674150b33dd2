"""classify_torch.py - a PyTorch module trained by Weft, and back: Fashion-MNIST.
    python3 examples/classify_torch.py FOLDER [EPOCHS]     the folder of train-images-idx3-ubyte.gz and the other three files"""
import sys

import torch
import weft
from torch import nn
from torch.nn.functional import cross_entropy


class Step(nn.Module):  # a step takes a batch and returns what you want to see; `loss` is minimized
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image, label):
        logits = self.net(image.float()[:, None] / 255)
        return cross_entropy(logits, label.long()), (logits.argmax(1) == label).float().mean()


def main():
    folder, epochs = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 2
    net = nn.Sequential(nn.Conv2d(1, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), nn.ReLU(),
                        nn.Flatten(), nn.Dropout(0.2), nn.Linear(64 * 7 * 7, 10))
    example = torch.zeros(64, 28, 28, dtype=torch.uint8), torch.zeros(64, dtype=torch.uint8)
    batches = {"image": {0: "batch"}, "label": {0: "batch"}}

    m = weft.Model("classifier", batch=64)
    m.from_torch("train", Step(net), example, dynamic=batches, outputs=["loss", "accuracy"], minimize=weft.Adam(1e-3))
    m.from_torch("val", Step(net), example, dynamic=batches, outputs=["loss", "accuracy"], train=False)
    train, val = ({"image": f"{folder}/{name}-images-idx3-ubyte.gz", "label": f"{folder}/{name}-labels-idx1-ubyte.gz"} for name in ("train", "t10k"))
    t = weft.Trainer(m, train=train, val=val, epochs=epochs, hooks=[weft.hooks.text()])
    print(f"a step takes {t.plan.memory['total'] / 2**20:.1f} MiB")
    t.fit()
    weft.to_torch(t.store, Step(net))
    torch.save(net.state_dict(), "net.pt")


if __name__ == "__main__":
    main()
