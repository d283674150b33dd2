"""Plans: what will run, and the memory it takes, before anything runs."""
import json

from ._handles import Handle
from ._lib import call, each, ffi, lib, make, string, taken, text
from ._structs import fields_of, no_such, structure
from ._words import in_python
from .model import _ports


class Plan(Handle):
    """A compiled model. It needs no device, and can be read, checked and drawn."""

    def __init__(self, model, options=None):
        keep = []
        made = structure("weft_compile_options", options or {}, keep)
        model.check_finished()
        model.check_batch((options or {}).get("batch"))
        super().__init__(make(lib.weft_compile, model.pointer, made), lib.weft_plan_free)
        self.model, self.options = model, dict(options or {})

    def __repr__(self):
        return f"<weft.Plan of {self.model.name}: {self.memory['total'] / 2**20:.1f} MiB>"

    @property
    def batch(self):
        """The number of samples in a batch."""
        return lib.weft_plan_batch(self.pointer)

    @property
    def memory(self):
        """Bytes by kind: what a store and a session allocate for tensors, exactly."""
        needs = lib.weft_plan_memory(self.pointer)
        return {name: getattr(needs, name) for name in fields_of("weft_memory") if name != "reserved"}

    @property
    def notes(self):
        """Sentences that the compiler has for the reader of the plan."""
        return [in_python(string(note)) for note in each(lambda i: lib.weft_plan_note(self.pointer, i))]

    @property
    def settings(self):
        """What a training's numbers depend on beside its model, its data and its learning rates."""
        name, value = ffi.new("char const **"), ffi.new("char const **")
        return {string(name[0]): string(value[0]) for _ in each(lambda i: lib.weft_plan_setting_at(self.pointer, i, name, value))}

    def text(self):
        """What will run, node by node."""
        return taken(lib.weft_plan_text(self.pointer))

    def json(self):
        """The same as dicts and lists."""
        return json.loads(taken(lib.weft_plan_json(self.pointer)))

    def view(self, graph=None, what="program", depth=None, max_nodes=None):
        """A picture for a notebook: a graph's "program" as it runs, or "plan", its buckets and streams."""
        from .view import draw
        return draw(self.model, what, graph, self.options, depth, max_nodes)

    def verify(self):
        """Checks the plan again, by code that shares nothing with the compiler."""
        call(lib.weft_plan_verify, self.pointer)

    def inputs(self, graph):
        """What a graph takes, with the plan's batch: a list of Port."""
        return self._ports(graph, lib.weft_plan_input)

    def outputs(self, graph):
        """What a graph gives: a list of Port."""
        return self._ports(graph, lib.weft_plan_output)

    def _ports(self, graph, of):
        found = _ports(lambda i, port: of(self.pointer, text(graph), i, port))
        if not found and graph not in self.model.graphs:
            raise no_such("the model has no graph", graph, self.model.graphs)
        return found

    def store(self, seed=0):
        """A store for the values of the model, each at its initial value."""
        from .session import Store
        return Store(self, seed)


def passes():
    """The names of the compiler's passes, in their order."""
    return [string(name) for name in each(lib.weft_pass_name)]
