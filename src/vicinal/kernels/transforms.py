"""Fourier transforms of the rows and columns of a grid, and products with a kernel's transform.

Lines of ``rows`` or ``columns`` numbers are transformed with the period ``2 * half``, the numbers
beyond them being zero.  So the first pass needs no sums: the even frequencies are the transform of
length ``half`` of the numbers, the odd ones that of the numbers times ``exp(-pi i j / half)``.
These two go side by side through the other passes (Stockham's, of radices 2 to 5), and frequencies
come in their natural order.  A vector holds as many lines, so that every step is the same for all
of its lanes.

``x``, ``y`` and ``kept`` are scratch: 2 * half complex numbers of each lane, the real parts of one
frequency first, then its imaginary parts.  ``turns`` has ``exp(-pi i j / half)``; ``radices`` and
``twiddles`` are those of `vicinal.engines.cpu.grid_transforms.Plan`.
"""

from __future__ import annotations

from vicinal.kernels._jit import helper, inlined, kernel, maximum
from vicinal.kernels._vectors import load, scaled, splat, store, transpose

_SIN_3 = 0.8660254037844386
_COS_5, _SIN_5 = (
    (0.30901699437494745, -0.8090169943749475),
    (0.9510565162951535, 0.5877852522924731),
)


@inlined
def _turned(y, at, real, imag, a, b, twiddles, t):
    """Store (a + bi) times the twiddle at t."""
    c, s = splat(twiddles, t), splat(twiddles, t + 1)
    store(y, at + real, a * c - b * s)
    store(y, at + imag, a * s + b * c)


@inlined
def _pass_2(x, y, i, step, o, width, real, imag, twiddles, t):
    ar, ai = load(x, i + real), load(x, i + imag)
    br, bi = load(x, i + step + real), load(x, i + step + imag)
    store(y, o + real, ar + br)
    store(y, o + imag, ai + bi)
    _turned(y, o + width, real, imag, ar - br, ai - bi, twiddles, t)


@inlined
def _pass_3(x, y, i, step, o, width, real, imag, twiddles, t):
    ar, ai = load(x, i + real), load(x, i + imag)
    br, bi = load(x, i + step + real), load(x, i + step + imag)
    cr, ci = load(x, i + 2 * step + real), load(x, i + 2 * step + imag)
    sr, si = br + cr, bi + ci
    dr, di = scaled(br - cr, _SIN_3), scaled(bi - ci, _SIN_3)
    store(y, o + real, ar + sr)
    store(y, o + imag, ai + si)
    mr, mi = ar - scaled(sr, 0.5), ai - scaled(si, 0.5)
    _turned(y, o + width, real, imag, mr + di, mi - dr, twiddles, t)
    _turned(y, o + 2 * width, real, imag, mr - di, mi + dr, twiddles, t + 2)


@inlined
def _pass_4(x, y, i, step, o, width, real, imag, twiddles, t):
    ar, ai = load(x, i + real), load(x, i + imag)
    br, bi = load(x, i + step + real), load(x, i + step + imag)
    cr, ci = load(x, i + 2 * step + real), load(x, i + 2 * step + imag)
    dr, di = load(x, i + 3 * step + real), load(x, i + 3 * step + imag)
    er, ei, fr, fi = ar + cr, ai + ci, ar - cr, ai - ci
    gr, gi, hr, hi = br + dr, bi + di, br - dr, bi - di
    store(y, o + real, er + gr)
    store(y, o + imag, ei + gi)
    _turned(y, o + width, real, imag, fr + hi, fi - hr, twiddles, t)
    _turned(y, o + 2 * width, real, imag, er - gr, ei - gi, twiddles, t + 2)
    _turned(y, o + 3 * width, real, imag, fr - hi, fi + hr, twiddles, t + 4)


@inlined
def _pass_5(x, y, i, step, o, width, real, imag, twiddles, t):
    ar, ai = load(x, i + real), load(x, i + imag)
    br, bi = load(x, i + step + real), load(x, i + step + imag)
    cr, ci = load(x, i + 2 * step + real), load(x, i + 2 * step + imag)
    dr, di = load(x, i + 3 * step + real), load(x, i + 3 * step + imag)
    er, ei = load(x, i + 4 * step + real), load(x, i + 4 * step + imag)
    pr, pi, qr, qi = br + er, bi + ei, br - er, bi - ei
    sr, si, ur, ui = cr + dr, ci + di, cr - dr, ci - di
    store(y, o + real, ar + pr + sr)
    store(y, o + imag, ai + pi + si)
    mr = ar + scaled(pr, _COS_5[0]) + scaled(sr, _COS_5[1])
    mi = ai + scaled(pi, _COS_5[0]) + scaled(si, _COS_5[1])
    nr = scaled(qr, _SIN_5[0]) + scaled(ur, _SIN_5[1])
    ni = scaled(qi, _SIN_5[0]) + scaled(ui, _SIN_5[1])
    _turned(y, o + width, real, imag, mr + ni, mi - nr, twiddles, t)
    _turned(y, o + 4 * width, real, imag, mr - ni, mi + nr, twiddles, t + 6)
    mr = ar + scaled(pr, _COS_5[1]) + scaled(sr, _COS_5[0])
    mi = ai + scaled(pi, _COS_5[1]) + scaled(si, _COS_5[0])
    nr = scaled(qr, _SIN_5[1]) - scaled(ur, _SIN_5[0])
    ni = scaled(qi, _SIN_5[1]) - scaled(ui, _SIN_5[0])
    _turned(y, o + 2 * width, real, imag, mr + ni, mi - nr, twiddles, t + 2)
    _turned(y, o + 3 * width, real, imag, mr - ni, mi + nr, twiddles, t + 4)


@helper
def _transform(x, y, half, radices, twiddles, real, imag, lanes):
    """Two transforms of length ``half`` side by side; True if the result is in y and not in x.

    ``real`` is 0 and ``imag`` ``lanes``, or the other way round for the inverse.
    """
    size, left, beside, t = 2 * lanes, half, 2, 0
    for radix in radices:
        left //= radix
        step, width = left * beside * size, beside * size
        for p in range(left):
            for q in range(beside):
                i, o = (p * beside + q) * size, (radix * p * beside + q) * size
                if radix == 4:
                    _pass_4(x, y, i, step, o, width, real, imag, twiddles, t)
                elif radix == 5:
                    _pass_5(x, y, i, step, o, width, real, imag, twiddles, t)
                elif radix == 3:
                    _pass_3(x, y, i, step, o, width, real, imag, twiddles, t)
                else:
                    _pass_2(x, y, i, step, o, width, real, imag, twiddles, t)
            t += 2 * (radix - 1)
        beside *= radix
        x, y = y, x
    return len(radices) % 2 == 1


@inlined
def _with_odd(x, count, half, turns, lanes):
    """Turn the numbers at even places for the odd frequencies; those beyond ``count`` are zero."""
    for j in range(count):
        at = 4 * lanes * j
        a, b = load(x, at), load(x, at + lanes)
        _turned(x, at + 2 * lanes, 0, lanes, a, b, turns, 2 * j)
    for at in range(4 * lanes * count, 4 * lanes * half):
        x[at] = 0.0


@inlined
def _without_odd(x, j, turns, lanes):
    """A number after the transform back: from its even and its odd frequencies."""
    at = 4 * lanes * j
    c, s = splat(turns, 2 * j), splat(turns, 2 * j + 1)
    a, b = load(x, at + 2 * lanes), load(x, at + 3 * lanes)
    return load(x, at) + (a * c + b * s), load(x, at + lanes) + (b * c - a * s)


@helper
def _transposed(source, at, step, target, place, leap):
    """In a function of its own: it is long."""
    transpose(source, at, step, target, place, leap)


@kernel
def transform_rows(
    grid, spectrum, first, last, step, columns, across, half, width, radices, twiddles, turns, x, y,
    lanes,
):  # fmt: skip
    """Transforms of the rows of a grid from first on, ``2 * lanes`` of them every ``step`` rows.

    Two rows are in a complex number.  Rows of the grid have ``columns`` numbers, ``across`` apart.
    Rows of the spectrum are the real and the imaginary parts of the frequencies 0 to ``half``,
    ``width`` numbers each.
    """
    size = 2 * lanes
    for row in range(first, last, step):
        at, place = row * across, 2 * row * width
        for j in range(0, columns, lanes):
            _transposed(grid, at + j, across, x, 2 * size * j, 2 * size)
            _transposed(grid, at + lanes * across + j, across, x, 2 * size * j + lanes, 2 * size)
        _with_odd(x, columns, half, turns, lanes)
        if _transform(x, y, half, radices, twiddles, 0, lanes, lanes):
            x, y = y, x
        for f in range(half + 1):
            g = 0 if f == 0 else 2 * half - f
            a, b = load(x, size * f), load(x, size * f + lanes)
            c, d = load(x, size * g), load(x, size * g + lanes)
            store(y, 2 * size * f, a + c)
            store(y, 2 * size * f + lanes, b - d)
            store(y, 2 * size * f + 2 * lanes, b + d)
            store(y, 2 * size * f + 3 * lanes, c - a)
        for t in range(2 * size * (half + 1), 2 * size * width):
            y[t] = 0.0
        for f in range(0, width, lanes):
            for part in range(4):
                to = place + (part // 2 * lanes * 2 + part % 2) * width + f
                _transposed(y, 2 * size * f + part * lanes, 2 * size, spectrum, to, 2 * width)


@kernel
def transform_rows_back(
    spectrum, field, first, last, step, columns, across, half, width, radices, twiddles, turns,
    x, y, lanes, largest,
):  # fmt: skip
    """Rows of a field, from its spectrum: the arguments are those of `transform_rows`.

    ``largest[row]`` becomes the largest size of a number in the rows that begin there.
    """
    size = 2 * lanes
    for row in range(first, last, step):
        at, place = 2 * row * width, row * across
        for f in range(0, width, lanes):
            for part in range(4):
                begin = at + (part // 2 * lanes * 2 + part % 2) * width + f
                _transposed(spectrum, begin, 2 * width, y, 2 * size * f + part * lanes, 2 * size)
        for f in range(half + 1):
            a, b = load(y, 2 * size * f), load(y, 2 * size * f + lanes)
            c, d = load(y, 2 * size * f + 2 * lanes), load(y, 2 * size * f + 3 * lanes)
            if f > 0:
                store(x, size * (2 * half - f), a + d)
                store(x, size * (2 * half - f) + lanes, c - b)
            store(x, size * f, a - d)
            store(x, size * f + lanes, b + c)
        if _transform(x, y, half, radices, twiddles, lanes, 0, lanes):
            x, y = y, x
        for j in range(columns):
            a, b = _without_odd(x, j, turns, lanes)
            store(x, 2 * size * j, a)
            store(x, 2 * size * j + lanes, b)
        for t in range(2 * size * columns, 2 * size * across):
            x[t] = 0.0
        for j in range(0, columns, lanes):
            _transposed(x, 2 * size * j, 2 * size, field, place + j, across)
            _transposed(
                x, 2 * size * j + lanes, 2 * size, field, place + lanes * across + j, across
            )
        top = x.dtype.type(0)
        for t in range(place, place + size * across):
            top = maximum(top, abs(field[t]))
        largest[row] = top


@inlined
def _product(x, y, transforms, m, half, width, first, lanes, adds):
    """Set y to x times the transform of kernel m, or add that to y."""
    for f in range(2 * half):
        row = f if f <= half else 2 * half - f
        w = load(transforms, (m * (half + 1) + row) * width + first)
        at = 2 * lanes * f
        a, b = load(x, at) * w, load(x, at + lanes) * w
        if adds:
            a, b = a + load(y, at), b + load(y, at + lanes)
        store(y, at, a)
        store(y, at + lanes, b)


@helper
def _column(spectra, m, nodes, rows, width, first, half, radices, twiddles, turns, x, y, lanes):
    """The transforms of columns first:first + lanes of spectrum m; True if they are in y."""
    for j in range(nodes):
        at = 2 * (m * rows + j) * width + first
        store(x, 4 * lanes * j, load(spectra, at))
        store(x, 4 * lanes * j + lanes, load(spectra, at + width))
    _with_odd(x, nodes, half, turns, lanes)
    return _transform(x, y, half, radices, twiddles, 0, lanes, lanes)


@kernel
def convolve_columns(
    spectra, transforms, n_charges, n_fields, nodes, rows, width, first, step, half, radices,
    twiddles, turns, x, y, kept, lanes,
):  # fmt: skip
    """Columns from first on, ``lanes`` of them every ``step``: charges under their kernels.

    One charge under several kernels, or the sum of several charges.  ``spectra`` is (charges or
    fields, rows, 2, width), those of the charges at first and of the fields at last, and
    ``transforms`` is (kernels, half + 1, width), both flat; rows beyond ``nodes`` become zero.
    """
    for begin in range(first, width, step):
        for m in range(n_charges):
            if _column(
                spectra, m, nodes, rows, width, begin, half, radices, twiddles, turns, x, y, lanes
            ):  # fmt: skip
                x, y = y, x
            if n_fields == 1:
                _product(x, kept, transforms, m, half, width, begin, lanes, m > 0)
        for m in range(n_fields):
            if n_fields > 1:
                _product(x, kept, transforms, m, half, width, begin, lanes, False)
            a, b = kept, y
            if _transform(a, b, half, radices, twiddles, lanes, 0, lanes):
                a, b = b, a
            for j in range(rows):
                c, d = _without_odd(a, min(j, nodes - 1), turns, lanes)
                if j >= nodes:
                    c, d = c - c, d - d
                at = 2 * (m * rows + j) * width + begin
                store(spectra, at, c)
                store(spectra, at + width, d)
