"""
Watch a picture being learnt
============================

``Frames`` records the picture of ``KSNE`` while it is learnt, and ``animate`` writes it as a GIF
or an MP4.  Here six of the frames are drawn side by side: at first all attraction is exaggerated,
so that clusters find each other.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from vicinal import KSNE
from vicinal.callbacks import Frames

X, y = load_digits(return_X_y=True)
X, y = X[:600], y[:600]

# %%
# The same fit as without the callback, to the bit.
frames = Frames(every=25)
KSNE(k=1, max_iter=500, random_state=0).set_callbacks(frames).fit(X)
print(f"{len(frames.embeddings)} frames")

# %%
# ``vicinal.plotting.animate(frames.embeddings, y)`` makes a film of all of them.
chosen = np.linspace(0, len(frames.embeddings) - 1, 6).astype(int)
figure, axes = plt.subplots(1, 6, figsize=(12, 2.2), layout="constrained")
for ax, at in zip(axes, chosen, strict=True):
    ax.scatter(*frames.embeddings[at].T, c=y, s=3, cmap="tab10")
    ax.set(xticks=[], yticks=[], title=f"frame {at}")
