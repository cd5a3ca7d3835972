"""Objects that look like collections of dask and arrays of a device, which are not installed."""

from types import SimpleNamespace


def stand_in(module, name, values, **attributes):
    """An object of such a type with the shape and dtype of an array, and no way to its entries."""

    def load(self, *args, **kwargs):
        raise AssertionError(f"the entries of a {name} were loaded")

    loads = ("__array__", "__iter__", "__getitem__", "__float__", "__array_function__")
    kind = type(name, (), {"__module__": module, **dict.fromkeys(loads, load)})
    found = kind()
    vars(found).update(shape=values.shape, ndim=values.ndim, dtype=values.dtype, **attributes)
    return found


#: what each is told, and how it is made
ELSEWHERE = {
    "dask array": ("compute", lambda X: stand_in("dask.array.core", "Array", X)),
    "dask frame": ("compute", lambda X: stand_in("dask.dataframe.core", "DataFrame", X)),
    "dask-expr frame": ("compute", lambda X: stand_in("dask_expr._collection", "DataFrame", X)),
    "CUDA tensor": (
        "cpu", lambda X: stand_in("torch", "Tensor", X, device=SimpleNamespace(type="cuda"))
    ),
    "CuPy array": ("get", lambda X: stand_in("cupy", "ndarray", X)),
}  # fmt: skip
