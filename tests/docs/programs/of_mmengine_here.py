import weft
from data import IMAGES, LABELS, net
from torch import nn
from torch.nn.functional import cross_entropy


class Classifier(nn.Module):
    def __init__(self, mode):
        super().__init__()
        self.net, self.mode = net(), mode

    def forward(self, image, label):
        logits = self.net(image)
        return cross_entropy(logits, label) if self.mode == "loss" else logits


class Accuracy(weft.Evaluator):
    name, reads, counts = "accuracy", ("logits", "label"), 2

    def batch(self, tally, logits, label):
        tally.count(0, int((logits.argmax(1) == label).sum()))
        tally.count(1, len(label))

    def report(self, tally):
        tally.report(tally.counted(0) / tally.counted(1))


example, batches = (IMAGES[:32], LABELS[:32]), {"image": {0: "batch"}, "label": {0: "batch"}}
m = weft.Model("classifier", batch=32)
m.from_torch("train", Classifier("loss"), example, dynamic=batches, outputs=["loss"],
             minimize=weft.AdamW(1e-2, clip_norm=1.0, schedule="cosine:0-160"))
m.from_torch("val", Classifier("predict"), example, dynamic=batches, outputs=["logits"], train=False)

data = {"image": IMAGES, "label": LABELS}
t = weft.Trainer(m, train=data, val=data, epochs=10, comm=weft.world(), evaluators=[Accuracy()],
                 hooks=[weft.hooks.text(every=10)], checkpoints=dict(folder="run", best="accuracy", max=True))
t.fit()
