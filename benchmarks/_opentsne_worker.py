"""openTSNE in an environment of its own: seconds of an iteration at a given picture.

    PYTHON benchmarks/_opentsne_worker.py DATA.npz

``DATA.npz`` holds the rows ``X``.  Each line of standard input names a picture, a .npy file; the
answer is the seconds of the processor and of the clock that an iteration takes there.  The learning
rate is so small that the picture stays.
"""

import sys
import time

import numpy as np
from openTSNE import TSNEEmbedding
from openTSNE.affinity import PerplexityBasedNN

ITERATIONS = 5
affinities = PerplexityBasedNN(np.load(sys.argv[1])["X"], perplexity=30, n_jobs=2, random_state=0)
print("ready", flush=True)
for line in sys.stdin:
    start = np.load(line.strip()).astype(np.float64)
    embedding = TSNEEmbedding(
        start, affinities, negative_gradient_method="fft", n_jobs=2, learning_rate=1e-12
    )
    embedding.optimize(1, inplace=True)
    cpu, wall = time.process_time(), time.perf_counter()
    embedding.optimize(ITERATIONS, inplace=True)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(cpu / ITERATIONS, wall / ITERATIONS, flush=True)
