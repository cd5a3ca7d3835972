"""What a user who reads nothing gets: NCA() beside 5-NN and scikit-learn's NCA."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

from sklearn.neighbors import NeighborhoodComponentsAnalysis as PeerNCA
from sklearn.preprocessing import StandardScaler

from reproduce.experiment import Done, Experiment, Job
from reproduce.protocol import SMALL, data, knn, stratified, summary

EXPERIMENTS: tuple[Experiment, ...] = ()
