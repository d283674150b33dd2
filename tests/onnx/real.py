#!/usr/bin/env python3
"""real.py - models exported by PyTorch: each is imported and its outputs are compared with PyTorch's in f64; the error may be 4 times that of
onnxruntime plus 1e-6 of the largest. Then it trains for ten steps, and its predict graph is exported again and run by onnxruntime.

    real.py [--only REGEX] [--folder F]      needs torch, torchvision, transformers, diffusers, onnx, onnxscript, onnxruntime

F keeps the exported files (a temporary folder).
"""
import argparse
import copy
import logging
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "2")
warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)
import numpy as np
import onnxruntime
import torch
from torch import nn

import weft

OPSET = 20


class Logits(nn.Module):
    """A model of transformers as a function of its tensors."""

    def __init__(self, model, field="logits"):
        super().__init__()
        self.model, self.field = model, field

    def forward(self, ids):
        return getattr(self.model(input_ids=ids), self.field)


def vision(name):
    import torchvision
    return lambda: (getattr(torchvision.models, name)(num_classes=10), (torch.randn(2, 3, 64, 64),))


def text(kind, config, field="logits", **more):
    def make():
        import transformers
        model = getattr(transformers, kind)(getattr(transformers, config)(**more))
        return Logits(model, field), (torch.randint(0, 100, (2, 16)),)
    return make


def t5():
    import transformers
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
                                                                          decoder_start_token_id=0, use_cache=False, attn_implementation="eager"))

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, decoder_ids):
            return self.model(input_ids=ids, decoder_input_ids=decoder_ids).logits
    return Step(), (torch.randint(0, 100, (2, 12)), torch.randint(0, 100, (2, 10)))


def unet():
    import diffusers
    model = diffusers.UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
                                  down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), norm_num_groups=8)

    class Step(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, image):
            return self.model(image, 3).sample
    return Step(), (torch.randn(2, 3, 16, 16),)


def dcgan():
    layers = []
    for before, after, size, stride, pad in ((16, 64, 4, 1, 0), (64, 32, 4, 2, 1), (32, 16, 4, 2, 1)):
        layers += [nn.ConvTranspose2d(before, after, size, stride, pad, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Tanh()), (torch.randn(2, 16, 1, 1),)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.lstm, self.head = nn.Embedding(50, 24), nn.LSTM(24, 32, num_layers=2, batch_first=True), nn.Linear(32, 50)

    def forward(self, ids):
        return self.head(self.lstm(self.table(ids))[0])


SMALL = dict(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
MODELS = {
    "resnet18": vision("resnet18"),
    "mobilenet_v3_small": vision("mobilenet_v3_small"),
    "gpt2": text("GPT2LMHeadModel", "GPT2Config", vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=32, use_cache=False),
    "bert": text("BertForMaskedLM", "BertConfig", max_position_embeddings=32, **SMALL),
    "llama": text("LlamaForCausalLM", "LlamaConfig", num_key_value_heads=2, max_position_embeddings=32, use_cache=False, **SMALL),
    "t5": t5,
    "vit": lambda: (__import__("torchvision").models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10), (torch.randn(2, 3, 32, 32),)),
    "swin": lambda: (__import__("torchvision").models.SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], num_classes=10), (torch.randn(2, 3, 64, 64),)),
    "unet": unet,
    "dcgan": dcgan,
    "lstm": lambda: (Lstm(), (torch.randint(0, 50, (2, 12)),)),
    "detr_backbone": lambda: (nn.Sequential(*list(__import__("torchvision").models.resnet50(weights=None).children())[:-2]), (torch.randn(2, 3, 64, 64),)),
}


def exported(name, folder):
    """The model in eval mode, its inputs, and the file."""
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.eval()
    with torch.no_grad():  # heads that begin with zeros would show nothing
        for value in model.parameters():
            if not value.any():
                value.normal_(0, 0.1)
    path = folder / f"{name}.onnx"
    batch = torch.export.Dim("batch", min=1, max=64)
    names = [f"in{i}" for i in range(len(inputs))]
    if not path.exists():
        torch.onnx.export(model, inputs, str(path), dynamo=True, opset_version=OPSET, input_names=names, output_names=["out"], external_data=False,
                          dynamic_shapes=tuple({0: batch} for _ in inputs), verbose=False, report=False)
    return model, dict(zip(names, inputs)), path


def wide(model, inputs):
    double = copy.deepcopy(model).double()
    with torch.no_grad():
        return double(*(i.double() if i.is_floating_point() else i for i in inputs.values())).numpy()


def arrays(inputs):
    return {n: i.numpy() for n, i in inputs.items()}


def error(found, truth):
    return float(np.abs(found.astype(np.float64) - truth).max())


def imported(name, path, weights):
    """Graphs train (towards ones) and predict of a file."""
    model = weft.Model(name, batch=2)
    with weft.Onnx(str(path)) as file:
        file.graph(model, "train", train=True)
        loss = weft.mean(weft.square(weft.offset(file.value("out"), -1)))
        model.minimize(loss, optimizer=weft.Adam(1e-4))
        loss.output("loss")
        file.graph(model, "predict")
        file.weights(str(weights))
    return model


def judge(name, folder):
    """("right" | what is not, the errors and losses)"""
    torch_model, inputs, path = exported(name, folder)
    truth, weights = wide(torch_model, inputs), folder / f"{name}.safetensors"
    theirs = onnxruntime.InferenceSession(str(path)).run(None, arrays(inputs))[0]
    model = imported(name, path, weights)
    store = model.compile(batch=2, threads=2).store()
    store.load(str(weights))
    with store.session() as s:
        ours = s.run("predict", **arrays(inputs))["out"]
        losses = [float(s.run("train", **arrays(inputs))["loss"]) for _ in range(10)]
        trained = s.run("predict", **arrays(inputs))["out"]
    again = folder / f"{name}.trained.onnx"
    weft.export_onnx(model.graphs["predict"], again, store)
    there = onnxruntime.InferenceSession(str(again)).run(None, arrays(inputs))[0]
    largest, found = np.abs(truth).max(), "right"
    if error(ours, truth) > 4 * error(theirs, truth) + 1e-6 * largest:
        found = "WRONG"
    elif not losses[-1] < losses[0]:
        found = "does not train"
    elif error(there, trained.astype(np.float64)) > 1e-5 * np.abs(trained).max() + 4 * error(theirs, truth):
        found = "is exported wrong"
    return found, (f"error {error(ours, truth):.1e}, onnxruntime {error(theirs, truth):.1e}, loss {losses[0]:.4g} -> {losses[-1]:.4g}, "
                   f"exported {error(there, trained.astype(np.float64)):.1e}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="")
    options.add_argument("--folder", type=Path)
    o = options.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name in MODELS:
            if not re.search(o.only, name):
                continue
            try:
                verdict, told = judge(name, o.folder or Path(temporary))
            except weft.Error as why:
                verdict, told = "refused", str(why)
            failed += verdict != "right"
            print(f"{name:20} {verdict:8} {told}", flush=True)
    print(f"cases: {sum(bool(re.search(o.only, n)) for n in MODELS)} run, 0 skipped, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
