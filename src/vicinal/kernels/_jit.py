"""The decorators of all kernels, and the operations that LLVM must be able to vectorise.

Kernels are plain functions: numbers in, numbers out, no checks, no printing, no Python objects.
They run without the GIL, so :mod:`vicinal._threads` can call them from several threads; they
never start threads themselves (numba's threading layers abort on nested or forked use, and cost
seconds of compilation).

The compiled code is cached on disk beside the package, or under ``NUMBA_CACHE_DIR``
(:mod:`vicinal.kernels._cache`).
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, njit, types
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.extending import intrinsic

from vicinal._clock import count_compilation
from vicinal._threads import uninterrupted
from vicinal.kernels._cache import make_cache

# No "ninf": inf marks a pair that does not count.  "nnan" is safe because every inf - inf is
# excluded by construction; without it a minimum is not vectorised.
_FASTMATH = {"reassoc", "contract", "nsz", "nnan"}

# No reference counting: kernels allocate no arrays, and half of the code given to LLVM would be
# counting that it removes again.
_OPTIONS = {
    "nogil": True,
    "fastmath": _FASTMATH,
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
    "_nrt": False,
}


class _KernelCode(JITCodeLibrary):
    """The code of a kernel; its Python wrapper, which only reads the arguments, is not optimised.

    Optimising it would take as long as a short kernel does.
    """

    def add_ir_module(self, ir_module: Any) -> None:
        """Add the code of the kernel or of its wrapper."""
        if ir_module.name == "wrapper":
            for function in ir_module.functions:
                if not function.is_declaration:
                    function.attributes.add("noinline")
                    function.attributes.add("optnone")
        super().add_ir_module(ir_module)


class _LinkedCode(JITCodeLibrary):
    """Code that kernels are linked with, in LLVM's language: it needs no machine code of its own.

    It is optimised, so that a function inlined in several kernels has the same arithmetic in all.
    """

    @property
    def codegen(self) -> _LinkedCode:
        """Where numba sets the environment."""
        return self

    def set_env(self, name: str, environment: Any) -> None:
        """Nothing: there is no machine code with a place for it."""

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _HelperCode(_LinkedCode):
    """The same, optimised only in the kernels."""

    def _optimize_final_module(self) -> None:
        pass


class _Compiler(Compiler):
    """Numba's compiler, without the steps that none of our functions needs."""

    def define_pipelines(self) -> Any:
        """Choose the class of the code, then as numba does."""
        state = self.state
        kind: type[JITCodeLibrary] = _KernelCode
        if state.flags.no_cpython_wrapper:
            kind = _LinkedCode if state.flags.forceinline else _HelperCode
        state.library = kind(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


def _without_collection(compile_code: Callable[[], Any]) -> Any:
    """Call without the collector of garbage.

    It would visit all objects of numba, scipy and others several times for each kernel: a tenth of
    the time, and next to nothing of what it visits is garbage.
    """
    with global_compiler_lock:  # or two threads could leave it switched off
        enabled = gc.isenabled()
        gc.disable()
        try:
            return compile_code()
        finally:
            if enabled:
                gc.enable()


def kernel(function: Any) -> Any:
    """For functions called from Python: compiled once per machine, then loaded from the cache.

    They are compiled and loaded where no signal can interrupt it: an interrupt inside numba leaves
    code behind that the next call cannot use.
    """
    dispatcher = njit(pipeline_class=_Compiler, **_OPTIONS)(function)
    if config.DISABLE_JIT:
        return dispatcher
    compile_here = dispatcher.compile

    def compile_elsewhere(signature: Any) -> Any:
        if global_compiler_lock.is_locked():  # by this thread, which compiles a caller
            return compile_here(signature)
        return uninterrupted(lambda: _without_collection(lambda: compile_here(signature)))

    dispatcher.compile = compile_elsewhere
    dispatcher._cache = make_cache(function)
    return dispatcher


class _Inner(CPUDispatcher):
    """A function for kernels alone: without a Python wrapper, a call from Python would crash."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.__name__} is compiled into kernels and cannot be called by Python.")


def _inner(**options: Any) -> Any:
    # Functions called only by kernels need no Python wrapper, which takes long to compile.
    compiled = njit(no_cpython_wrapper=True, pipeline_class=_Compiler, **options, **_OPTIONS)

    def decorate(function: Any) -> Any:
        dispatcher = compiled(function)
        if not config.DISABLE_JIT:
            dispatcher.__class__ = _Inner
        return dispatcher

    return decorate


#: for functions called only by kernels, compiled into them
helper = _inner()
#: the same for long functions: otherwise LLVM may call one of several copies, which sum in
#: different orders, and which copy is called differs between fresh code and code from the cache
inlined = _inner(forceinline=True)


class _Counter(event.Listener):
    """Tells the clock of a fit when code is compiled; code from the cache is not."""

    def on_start(self, event: Any) -> None:
        count_compilation(True)

    def on_end(self, event: Any) -> None:
        count_compilation(False)


event.register("numba:compile", _Counter())

# Coefficients of 2**r on [-1/2, 1/2] for the smallest relative error; test_kernels.py in
# tests/kernels bounds the error at 4e-7 and 5e-16.  The constants come from
# tools/exp2_coefficients.py.
_EXP2_32 = (
    1.0, 0.6931470036506653, 0.24022242426872253, 0.05550733581185341,
    0.009671512991189957, 0.0013264723820611835,
)  # fmt: skip
_EXP2_64 = (
    1.0, 0.6931471805599492, 0.240226506959091, 0.055504108664481806,
    0.009618129107983113, 0.0013333558225802472, 0.00015403529994280986, 1.5252659426543829e-05,
    1.3215653575669628e-06, 1.0208323198767395e-07, 7.038183106253764e-09,
)  # fmt: skip
# Coefficients of log2(m) / s in powers of s², s = (m - 1) / (m + 1), for m in [sqrt(1/2), sqrt(2)]:
# tools/log2_coefficients.py.
_LOG2_32 = (2.885390043258667, 0.9617988467216492, 0.5767151713371277, 0.4317176938056946)
_LOG2_64 = (
    2.8853900817779268, 0.9617966939259898, 0.5770780163455203, 0.4121985858409005,
    0.32059853491395984, 0.262334352504183, 0.22091308423117678, 0.2136589569431927,
)  # fmt: skip


def _exp2_ir(builder: Any, x: Any, single: bool) -> Any:
    """2**x without a branch, in operations that the loop vectoriser can handle.

    x = n + r with n the nearest integer; 2**r by a polynomial; n is added to the exponent bits.
    The result is never below 2**-80 (float32) or 2**-700: products with it then stay normal
    numbers, and denormal numbers are several times slower.
    """
    real = x.type
    integer = ir.IntType(32 if single else 64)
    mantissa = 23 if single else 52

    def const(value: float) -> Any:
        return ir.Constant(real, value)

    unary = ir.FunctionType(real, [real])
    binary = ir.FunctionType(real, [real, real])
    rint = builder.module.declare_intrinsic("llvm.rint", [real], unary)
    maxnum = builder.module.declare_intrinsic("llvm.maxnum", [real], binary)
    x = builder.call(maxnum, [x, const(-80.0 if single else -700.0)])
    n = builder.call(rint, [x])
    r = builder.fsub(x, n)
    coefficients = _EXP2_32 if single else _EXP2_64
    p = const(coefficients[-1])
    for c in coefficients[-2::-1]:
        p = builder.fma(p, r, const(c))
    # Adding 1.5 * 2**mantissa leaves the integer n in the low bits: AVX2 cannot convert to int64.
    bits = builder.bitcast(builder.fadd(n, const(1.5 * 2.0**mantissa)), integer)
    bits = builder.shl(bits, ir.Constant(integer, mantissa))
    return builder.bitcast(builder.add(builder.bitcast(p, integer), bits), real)


def _log2_ir(builder: Any, x: Any, single: bool) -> Any:
    """log2(x) for x >= sqrt(1/2), in operations that the loop vectoriser can handle.

    x = 2**k m with m in [sqrt(1/2), sqrt(2)); infinity gives the exponent after the largest.
    """
    real = x.type
    word, i32 = ir.IntType(32 if single else 64), ir.IntType(32)
    mantissa = ir.Constant(word, 23 if single else 52)
    root = np.sqrt(np.float32(0.5)).view(np.int32) if single else np.sqrt(0.5).view(np.int64)
    one = ir.Constant(real, 1.0)
    bits = builder.bitcast(x, word)
    k = builder.lshr(builder.sub(bits, ir.Constant(word, int(root))), mantissa)
    m = builder.bitcast(builder.sub(bits, builder.shl(k, mantissa)), real)
    s = builder.fdiv(builder.fsub(m, one), builder.fadd(m, one))
    t = builder.fmul(s, s)
    coefficients = _LOG2_32 if single else _LOG2_64
    p = ir.Constant(real, coefficients[-1])
    for c in coefficients[-2::-1]:
        p = builder.fma(p, t, ir.Constant(real, c))
    # via 32 bits: AVX2 cannot convert from int64, and adding and subtracting a large constant in
    # floating point may be undone by "reassoc"
    exponent = builder.sitofp(k if single else builder.trunc(k, i32), real)
    return builder.fma(s, p, exponent)


@intrinsic
def _log2_intrinsic(typingctx: Any, x: Any) -> Any:
    if x not in (types.float32, types.float64):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _log2_ir(builder, args[0], x == types.float32)

    return x(x), codegen


@intrinsic
def _exp2_intrinsic(typingctx: Any, x: Any) -> Any:
    if x not in (types.float32, types.float64):
        return None

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _exp2_ir(builder, args[0], x == types.float32)

    return x(x), codegen


def _call(name: str) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        real = args[0].type
        function = ir.FunctionType(real, [real] * len(args))
        return builder.call(builder.module.declare_intrinsic(name, [real], function), args)

    return codegen


def _extreme(name: str, a: Any) -> Any:
    kind = types.unliteral(a)
    if isinstance(kind, types.Integer):
        return kind(kind, kind), _call(f"llvm.{'s' if kind.signed else 'u'}{name}")
    return kind(kind, kind), _call(f"llvm.{name}num")


@intrinsic
def _minimum(typingctx: Any, a: Any, b: Any) -> Any:
    return _extreme("min", a)


@intrinsic
def _maximum(typingctx: Any, a: Any, b: Any) -> Any:
    return _extreme("max", a)


@intrinsic
def _multiply_add(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    return a(a, a, a), _call("llvm.fmuladd")


if config.DISABLE_JIT:  # the same functions as plain Python, for `make test-nojit`

    def exp2(x: Any) -> Any:
        """2**x, never below 2**-80 or 2**-700."""
        dtype = np.result_type(x)
        return np.exp2(np.maximum(x, dtype.type(-80 if dtype.itemsize == 4 else -700)))

    def log2(x: Any) -> Any:
        """log2(x) for x >= sqrt(1/2)."""
        return np.minimum(np.log2(x), 128 if np.result_type(x).itemsize == 4 else 1024)

    def multiply_add(a: Any, b: Any, c: Any) -> Any:
        """a * b + c."""
        return a * b + c

    minimum, maximum = np.minimum, np.maximum
else:
    exp2, log2 = _exp2_intrinsic, _log2_intrinsic
    # also of integers: Python's own are not vectorised by numba, and are functions that it compiles
    minimum, maximum = _minimum, _maximum
    multiply_add = _multiply_add
