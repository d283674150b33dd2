"""Objects of C that have to be freed, in an order that C allows."""
import weakref

from ._lib import Error


class _Owned:
    """An object of C, freed when nobody has it any more: its handle, what was made with it, a call that is under way."""

    def __init__(self, pointer, free, keep):
        self.pointer = pointer
        # The finalizer holds `keep`, so that these are freed after it, whatever the order in which Python drops attributes.
        weakref.finalize(self, _free, free, pointer, keep)


def _free(free, pointer, keep):
    free(pointer)


class Handle:
    """Holds an object of C. It is freed when the Python object dies, or at close(), but not before what uses it (`keep` of others)."""

    def __init__(self, pointer, free, *keep):
        self._owned = _Owned(pointer, free, [k._owned if isinstance(k, Handle) else k for k in keep])

    @property
    def pointer(self):
        return self.held().pointer

    def held(self):
        """What keeps the object of C alive while a call is under way, in which a hook or another thread may close the handle."""
        if self._owned is None:
            raise Error("order", f"this {type(self).__name__} is closed")
        return self._owned

    def close(self):
        """Gives it up: it is freed as soon as nothing else uses it. A second call does nothing."""
        self._owned = None

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()


class Borrowed:
    """What `_owned` of an object is that another one owns: it keeps its owner alive."""

    def __init__(self, pointer, owner):
        self.pointer, self.owner = pointer, owner
