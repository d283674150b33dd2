import torch
from data import IMAGES, LABELS, net
from mmengine.evaluator import BaseMetric
from mmengine.model import BaseModel
from mmengine.runner import Runner
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset


class Classifier(BaseModel):
    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, image, label, mode):
        logits = self.net(image)
        return {"loss": cross_entropy(logits, label)} if mode == "loss" else (logits, label)


class Accuracy(BaseMetric):
    def process(self, batch, samples):
        logits, label = samples
        self.results.append({"right": (logits.argmax(1) == label).sum().item(), "all": len(label)})

    def compute_metrics(self, results):
        return {"accuracy": sum(r["right"] for r in results) / sum(r["all"] for r in results)}


data = TensorDataset(IMAGES, LABELS)
loader = dict(batch_size=32, dataset=data, collate_fn=dict(type="default_collate"))
runner = Runner(
    model=Classifier(), work_dir="run",
    train_dataloader=dict(loader, sampler=dict(type="DefaultSampler", shuffle=True)), train_cfg=dict(by_epoch=True, max_epochs=10),
    val_dataloader=dict(loader, sampler=dict(type="DefaultSampler", shuffle=False)), val_cfg=dict(), val_evaluator=dict(type=Accuracy),
    optim_wrapper=dict(optimizer=dict(type="AdamW", lr=1e-2), clip_grad=dict(max_norm=1.0)),
    param_scheduler=dict(type="CosineAnnealingLR", T_max=160, by_epoch=False),
    default_hooks=dict(logger=dict(type="LoggerHook", interval=10), checkpoint=dict(type="CheckpointHook", save_best="accuracy")))
runner.train()
