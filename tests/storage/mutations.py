"""Mutated model files, and a process that opens them.

``python mutations.py FOLDER FIRST COUNT`` mutates the models of FOLDER (files ``*.vic``), numbers
FIRST to FIRST + COUNT - 1, and prints one line of JSON with counts by result, and the mutations
that ended in anything but a `FileError` on loading or an exception of Python afterwards.  A crash
ends the process: the file ``FOLDER/current-FIRST`` then says which mutation it was.
"""

from __future__ import annotations

import collections
import copy
import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np

HUGE = [2**31, 2**53, -(2**63), 2**62, 10**9, -1, 0, 1, 10**6]
STRANGE = [None, True, False, "", "NaN", "x" * 1000, 0.5, -1.0, 1e308, 1e-308, [], {}, *HUGE]


def raw(content, rng):
    """Other bytes: flipped, cut, repeated, inserted."""
    content, what = bytearray(content), rng.integers(6)
    n = len(content)
    for _ in range(int(rng.integers(1, 5))):
        place = int(rng.integers(n)) if rng.random() < 0.5 else int(rng.integers(min(n, 200)))
        if what == 0:
            content[place] = int(rng.integers(256))
        elif what == 1:
            del content[place:]
        elif what == 2:
            del content[place : place + int(rng.integers(1, 9))]
        elif what == 3:
            content[place:place] = bytes(rng.integers(0, 256, int(rng.integers(1, 9)), np.uint8))
        elif what == 4:
            content[:8] = int(rng.integers(2**63)).to_bytes(8, "little")
        else:
            content += content[place : place + 64]
        n = max(1, len(content))
    return bytes(content)


def places(value, path=()):
    """The paths of all values in JSON."""
    yield path
    if len(path) > 60:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from places(item, (*path, i))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def mutate_header(header, arrays, rng, names):
    """Change one place of the header."""
    paths = [p for p in places(header) if len(p) > 1 and p[0] not in ("about", "versions")]
    path = paths[int(rng.integers(len(paths)))]
    parent, key, what = at(header, path[:-1]), path[-1], rng.integers(9)
    if what == 0:
        parent[key] = copy.deepcopy(STRANGE[int(rng.integers(len(STRANGE)))])
    elif what == 1 and isinstance(parent, dict):
        del parent[key]
    elif what == 2:  # something else of the same file
        parent[key] = copy.deepcopy(at(header, paths[int(rng.integers(len(paths)))]))
    elif what == 3 and isinstance(parent, dict):
        parent[str(rng.choice(["_module", "__class__", "predict", "fields", "array", "Z"]))] = 1
    elif what == 4:
        classes = [p for p in paths if p[-1] == "class"]
        if classes:
            chosen = classes[int(rng.integers(len(classes)))]
            others = [*names, "os:system", "vicinal.core.state:FitState"]
            at(header, chosen[:-1])["class"] = str(rng.choice(others))
    elif what == 5:
        used = [p for p in paths if p[-1] in ("array", "numbers", "utf8", "bytes", "ends")]
        if used and arrays:
            chosen = used[int(rng.integers(len(used)))]
            at(header, chosen[:-1])[chosen[-1]] = str(rng.choice(sorted(arrays)))
    elif what == 6:
        nested = 1
        for _ in range(int(rng.integers(1, 3000))):
            nested = {"list": [nested], "tuple": False}
        parent[key] = nested
    elif what == 7 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        parent[key] = type(parent[key])(parent[key] * float(rng.choice([-1, 0, 2, 1e3, 1e9])))
    elif isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    return path


def mutate_array(arrays, rng):
    """Change one array: its entries, shape or type; or exchange two."""
    name = str(rng.choice(sorted(arrays)))
    array, what = arrays[name], rng.integers(10)
    if what == 0:
        arrays[name] = array.astype(rng.choice(["f8", "f4", "i8", "i4", "u1", "?", "u8"]))
    elif what == 1:
        arrays[name] = array.reshape(-1)[: int(rng.integers(array.size + 1))]
    elif what == 2:
        arrays[name] = array[None] if rng.random() < 0.5 else array.reshape(-1)
    elif what == 3:
        arrays[name] = array.T.copy()
    elif what == 4:
        other = str(rng.choice(sorted(arrays)))
        arrays[name], arrays[other] = arrays[other], array
    elif what == 5:
        arrays[name] = np.concatenate([array.reshape(-1), array.reshape(-1)])
    elif what == 6:
        del arrays[name]
    elif what == 7:
        arrays[f"{name}2"] = array
    elif array.size:
        array = array.copy().reshape(-1)
        place = int(rng.integers(array.size))
        if array.dtype.kind == "f":
            array[place] = rng.choice([np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0, 1e-300])
        elif array.dtype.kind in "iu":
            info = np.iinfo(array.dtype)
            array[place] = rng.choice([info.min, info.max, 0, len(array) % info.max, 1], 1)[0]
        else:
            array[place] = not array[place]
        arrays[name] = array.reshape(arrays[name].shape)
    return name


def mutated(source, number, path, names):
    """Write mutation ``number`` of a file, and say what it was."""
    from vicinal.storage import container

    rng = np.random.default_rng([18, number])
    if number % 4 == 0:
        path.write_bytes(raw(source["content"], rng))
        return "bytes"
    header, arrays = copy.deepcopy(source["header"]), dict(source["arrays"])
    changed = []
    try:
        with np.errstate(all="ignore"):
            for _ in range(int(rng.integers(1, 4))):
                if arrays and rng.random() < 0.4:
                    changed.append(mutate_array(arrays, rng))
                else:
                    changed.append(mutate_header(header, arrays, rng, names))
        path.write_bytes(container.content_of(header, arrays))
    except (ValueError, RecursionError):  # not even JSON
        path.write_bytes(b"")
    return f"contents: {changed}"


def outcome(path):
    """What opening a file comes to."""
    from storage_models import WORDS, X, answers

    import vicinal
    from vicinal.storage import FileError

    try:
        model = vicinal.load(path)
    except FileError:
        return "refused"
    try:
        answers(model)
        if hasattr(model, "kneighbors"):
            model.kneighbors(n_neighbors=1)
        if getattr(model, "_stream", None) is not None:
            model.partial_fit(X[:4], WORDS[[0, 1, 2, 0]])
    except MemoryError:
        raise
    except Exception:
        return "loaded, no answer"
    return "loaded, answers"


def main(folder, first, count):
    from vicinal.storage import container
    from vicinal.storage.names import HOMES

    warnings.simplefilter("ignore")
    limit_memory()
    files = sorted(folder.glob("*.vic"))
    sources = []
    for file in files:
        header, arrays = container.read(file)
        content = file.read_bytes()
        sources.append({"content": content, "header": header, "arrays": arrays})
    counts, failures = collections.Counter(), []
    path = folder / f"mutated-{os.getpid()}"
    for number in range(first, first + count):
        which = number % len(sources)
        (folder / f"current-{first}").write_text(f"{number} {files[which].name}")
        what = mutated(sources[which], number, path, sorted(HOMES))
        try:
            found = outcome(path)
        except BaseException as error:
            found = "FAILED"
            failures.append(f"{number} {files[which].name} {what}: {error!r}")
        counts[f"{'bytes' if what == 'bytes' else 'contents'}, {found}"] += 1
    path.unlink(missing_ok=True)
    print(json.dumps({"counts": counts, "failures": failures}))


def limit_memory():
    """At most 1 GB more than now, so that a file cannot fill the memory unnoticed."""
    import resource

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**30, used + 2**30))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
