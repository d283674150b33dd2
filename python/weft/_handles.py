"""Objects of C that have to be freed, in an order that C allows."""
import weakref


class Handle:
    """Holds an object of C. It is freed when the Python object dies, or at close(); what it needs (`keep`) lives until then."""

    def __init__(self, pointer, free, *keep):
        self.pointer = pointer
        # The finalizer holds `keep`, so that these are freed after it, whatever the order in which Python drops attributes.
        self._free = weakref.finalize(self, _free, free, pointer, keep)

    def close(self):
        """Frees it now. A second call does nothing."""
        self._free()
        self.pointer = None

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self.close()


def _free(free, pointer, keep):
    free(pointer)
