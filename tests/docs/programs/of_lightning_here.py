import weft
from data import IMAGES, LABELS, net
from torch import nn
from torch.nn.functional import cross_entropy


class Training(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, image, label):
        return cross_entropy(self.net(image), label)


class Validation(Training):
    def forward(self, image, label):
        logits = self.net(image)
        return cross_entropy(logits, label), (logits.argmax(1) == label).float().mean()


network, example = net(), (IMAGES[:32], LABELS[:32])
batches = {"image": {0: "batch"}, "label": {0: "batch"}}
m = weft.Model("classifier", batch=32)
m.from_torch("train", Training(network), example, dynamic=batches, outputs=["loss"],
             minimize=weft.AdamW(1e-2, clip_norm=1.0, schedule="cosine:0-160"))
m.from_torch("val", Validation(network), example, dynamic=batches, outputs=["loss", "accuracy"], train=False)

data = {"image": IMAGES, "label": LABELS}
t = weft.Trainer(m, train=data, val=data, epochs=10, comm=weft.world(),
                 hooks=[weft.hooks.text(), weft.hooks.early_stop("loss", patience=3)],
                 checkpoints=dict(folder="run", best="accuracy", max=True))
t.fit()
weft.to_torch(t.store, Training(network))
print(t.progress.val["accuracy"])
