"""make_toy.py - examples/toy.c in PyTorch: writes its lines, without times, to toy.txt. MMEngine's guide trains this model: a
linear layer 1 -> 1 on ones, 50 samples by 2, squared and absolute error, SGD 0.01, MultiStepLR(2, 3), a log every 10."""
import os

import torch

model = torch.nn.Linear(1, 1)
torch.nn.init.zeros_(model.weight)
torch.nn.init.zeros_(model.bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 3])
lines, since, step = [], [], 0


def shown(value):
    return "%.4f" % value if value >= 1e-3 else "%.4g" % value


for epoch in range(5):
    for x in torch.ones(25, 2, 1):
        y = model(x)
        loss1, loss2 = torch.nn.functional.mse_loss(y, x), (y - x).abs().mean()
        optimizer.zero_grad()
        (loss1 + loss2).backward()
        optimizer.step()
        since.append((loss1.item(), loss2.item(), (loss1 + loss2).item()))
        step += 1
        if step % 10 == 0 or step == 125:
            means = [sum(s[k] for s in since) / len(since) for k in range(3)]
            lines.append("epoch %d  step %d/125  loss1 %s  loss2 %s  loss %s" % (epoch + 1, step, *map(shown, means)))
            since = []
    scheduler.step()
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "toy.txt"), "w") as f:
    f.write("\n".join(lines) + "\n")
