"""data.py - what the programs train on: images that tell their class by a bright row."""
import torch

generator = torch.Generator().manual_seed(0)
LABELS = torch.randint(0, 8, (512,), generator=generator)
IMAGES = torch.rand(512, 1, 8, 8, generator=generator)
IMAGES[torch.arange(512), 0, LABELS] += 1


def net():
    from torch import nn
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(1024, 8))
