"""Compile every kernel for an architecture, without a device: ``python compile_kernels.py 90``."""

import re
import sys

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from vicinal.engines.cuda import charged_kernels, count_kernels, dot_kernels, kernels, vote_kernels

_INTS = {"SELF", "RCODE", "CCODE", "FIRST", "LAST", "RFAR", "CFAR", "SKIP", "Q", "CODE", "COUNT"}
_SIZES = {"nr", "nc", "splits", "n"}
_HALVES = {"RH", "RL", "CH", "CL"}
_DOUBLES = {"SHIFT", "LOG2"}  # of `joined`
_VOTE_INTS = {"BEGIN", "OWN", "STEPS", "LOGGED", "INDICES"}
_VOTE_DOUBLES = {"REST", "W", "ODDS", "WINS", "LIMITS", "TOTAL"}


def type_of(name, dtype, halves):
    """The type of an argument."""
    if name in _SIZES:
        return "i32"
    if name in ("power", "tolerance"):
        return "fp32"
    if name in _INTS:
        return "*i32"
    return "*fp16" if halves and name in _HALVES else f"*{dtype}"


def type_in_votes(name, dtype):
    """The type of an argument of a kernel for votes."""
    if name.islower() or name == "N":
        return "i32"
    if name in _INTS | _VOTE_INTS:
        return "*i32"
    return "*fp64" if name in _VOTE_DOUBLES else f"*{dtype}"


def build(function, architecture, warps=1, dtype="fp32", **constants):
    """Compile a kernel, and look at its instructions."""
    signature, values = {}, {}
    for place, name in enumerate(function.arg_names):
        signature[name] = type_of(name, dtype, function.fn.__module__ == dot_kernels.__name__)
        if function.fn.__module__ in (vote_kernels.__name__, count_kernels.__name__):
            signature[name] = type_in_votes(name, dtype)
        if function is kernels.joined and name in _DOUBLES:
            signature[name] = "*fp64"
        if name in ("KEY", "INDPTR"):
            signature[name] = "*i64"
        if name in constants:
            signature[name], values[(place,)] = "constexpr", constants[name]
    source = ASTSource(fn=function, signature=signature, constexprs=values)
    options = {"num_warps": warps, "enable_fp_fusion": True}
    built = triton.compile(source, target=GPUTarget("cuda", architecture, 32), options=options)
    ptx = built.asm["ptx"]
    assert not re.search(r"\b(atom|red)\.", ptx), "an atomic operation has no fixed order"
    return ptx


def build_votes(architecture):
    """The kernels for sets of k, whose branches must not need memory that lanes share."""
    for d, k, rows, columns, dtype in ((2, 5, 64, 8, "fp32"), (32, 15, 32, 4, "fp32"),
                                       (5, 1, 32, 8, "fp64")):  # fmt: skip
        shape = {"D": d, "K": k, "BM": rows, "ANYWHERE": dtype == "fp64", "FAMILY": int(k == 1)}
        ptx = build(vote_kernels.collect, architecture, dtype=dtype, BN=columns, **shape)
        both = {"OWN": True, "OTHER": dtype == "fp32"}
        ptx += build(vote_kernels.pull, architecture, dtype=dtype, BN=1, **shape, **both)
        ptx += build(vote_kernels.merged, architecture, dtype=dtype, K=k, BM=32)
        assert ".shared." not in ptx
    build(count_kernels.count, architecture, BM=32, SLOPES=True)
    build(count_kernels.shares, architecture, BM=32)
    build(count_kernels.sets, architecture, BM=32)
    build(vote_kernels.attract, architecture, dtype="fp64", D=2, GAUSSIAN=False, LENGTH=128)


def main(architecture):
    """All kernels, in the shapes in which they are used."""
    direct = {"FAMILY": 0, "WEIGHED": False, "ANYWHERE": False}
    for d, family, skips in ((2, 0, True), (5, 3, False), (8, 1, False)):
        shape = {**direct, "D": d, "FAMILY": family, "SKIPS": skips}
        ptx = build(kernels.sums, architecture, BM=128, BN=16, **shape)
        assert "ex2.approx" in ptx
        assert "fma.rn" in ptx
        build(kernels.pull, architecture, BM=64, BN=4, **shape)
    for d, columns, dtype in ((16, 2, "fp32"), (32, 1, "fp64")):
        shape = {**direct, "D": d, "BM": 32, "SKIPS": False}
        build(kernels.sums, architecture, dtype=dtype, BN=4, **shape)
        build(kernels.pull, architecture, dtype=dtype, BN=columns, **shape)
    weighed = {**direct, "D": 2, "WEIGHED": True, "ANYWHERE": True, "SKIPS": False}
    build(kernels.sums, architecture, dtype="fp64", BM=64, BN=16, **weighed)
    build(kernels.pull, architecture, dtype="fp64", BM=64, BN=4, **weighed)
    build(kernels.seeds, architecture, D=5, BM=128, BN=16, FAMILY=0, WIDE=128)
    build(kernels.keys, architecture, D=5, BITS=9, BLOCK=256)
    build(kernels.joined, architecture, BM=64)
    for out, dtype in ((1, "fp32"), (2, "fp64")):
        shape = {"D": 3, "FAMILY": 0, "OUT": out}
        build(charged_kernels.sums, architecture, dtype=dtype, BM=128, BN=16, **shape)
        build(charged_kernels.pull, architecture, dtype=dtype, BM=64, BN=4, **shape)
    for width in (16, 32):
        shape = {**direct, "DP": width, "BM": 128, "BN": 64}
        assert "mma" in build(dot_kernels.sums, architecture, warps=4, **shape)
        del shape["WEIGHED"]
        build(dot_kernels.pull, architecture, warps=4, PRECISION="bf16x3", **shape)
    build_votes(architecture)


if __name__ == "__main__":
    main(int(sys.argv[1]))
