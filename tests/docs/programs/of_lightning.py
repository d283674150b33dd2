import lightning as L
import torch
from data import IMAGES, LABELS, net
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    def training_step(self, batch, index):
        image, label = batch
        loss = cross_entropy(self.net(image), label)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        image, label = batch
        logits = self.net(image)
        self.log("val_loss", cross_entropy(logits, label))
        self.log("accuracy", (logits.argmax(1) == label).float().mean())

    def configure_optimizers(self):
        adam = torch.optim.AdamW(self.parameters(), lr=1e-2)
        rate = torch.optim.lr_scheduler.CosineAnnealingLR(adam, 160)
        return {"optimizer": adam, "lr_scheduler": {"scheduler": rate, "interval": "step"}}


data = TensorDataset(IMAGES, LABELS)
trainer = L.Trainer(max_epochs=10, gradient_clip_val=1.0, accelerator="cpu", devices=1, enable_progress_bar=False,
                    callbacks=[EarlyStopping("val_loss", patience=3), ModelCheckpoint("run", monitor="accuracy", mode="max")])
trainer.fit(Classifier(), DataLoader(data, 32, shuffle=True), DataLoader(data, 32))
print(trainer.callback_metrics["accuracy"])
