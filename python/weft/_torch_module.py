"""A graph of a plan as a torch.nn.Module. It is a file of its own because its class needs torch when it is made."""
import torch

from ._lib import Error


class Predictor(torch.nn.Module):
    """Runs a graph on the values of a store: module(image) -> tensor. Inputs are by place or name, on the CPU."""

    def __init__(self, store, graph, outputs=None):
        super().__init__()
        self.graph, self.session = graph, store.session()
        inputs, made = self.session.ports(graph)
        self.inputs, self.fetched = list(inputs), list(made if outputs is None else outputs)

    def forward(self, *args, **kwargs):
        if len(args) > len(self.inputs):
            raise Error("argument", f"graph {self.graph} takes {', '.join(self.inputs)}, not {len(args)} inputs")
        feeds = {**dict(zip(self.inputs, args)), **kwargs}
        made = self.session.run(self.graph, fetch=self.fetched, **{n: x.detach().cpu().contiguous() for n, x in feeds.items()})
        found = tuple(torch.from_numpy(made[n]) for n in self.fetched)
        return found[0] if len(found) == 1 else found
