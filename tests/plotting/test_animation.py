"""Animations, and the curves of several embeddings."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.animation import FFMpegWriter
from PIL import Image

from vicinal import plotting
from vicinal.callbacks import Frames
from vicinal.fit import report as support
from vicinal.metrics import knn_accuracy, r_nx_auc, r_nx_curve

needs_callbacks = pytest.mark.skipif(not support.HAS_CALLBACKS, reason="needs scikit-learn >= 1.9")


def growing(rng, count, n=30):
    """Embeddings that grow, as those of t-SNE do."""
    Z = rng.normal(size=(n, 2))
    return [(1 + 3 * i) * Z + i for i in range(count)]


def test_a_gif_has_every_frame_and_can_be_read(rng, tmp_path):
    y = np.arange(30) % 3
    path = plotting.animate(
        growing(rng, 5), y, path=tmp_path / "new" / "film.gif", fps=10, hold=0.5, dpi=50
    )
    assert path == tmp_path / "new" / "film.gif"
    with Image.open(path) as film:
        # The frames that hold the last one are all equal: the format keeps one, for longer.
        assert film.n_frames == 5
        durations = []
        for at in range(5):
            film.seek(at)
            durations.append(film.info["duration"])
            assert len(np.unique(np.asarray(film.convert("RGB")).reshape(-1, 3), axis=0)) > 5
    assert durations == [100, 100, 100, 100, 600]
    assert not plt.get_fignums()


def test_the_view_follows_the_picture(rng, tmp_path, monkeypatch):
    from matplotlib.animation import PillowWriter

    seen = []

    def look(self, **kwargs):
        ax = self.fig.axes[0]
        offsets = np.concatenate([each.get_offsets() for each in ax.collections])
        seen.append((ax.get_title(), ax.get_xlim(), ax.get_ylim(), offsets))

    monkeypatch.setattr(PillowWriter, "grab_frame", look)
    monkeypatch.setattr(PillowWriter, "finish", lambda self: None)
    frames = Frames()
    frames.embeddings, frames.iterations = growing(rng, 9), list(range(10, 100, 10))
    plotting.animate(frames, path=tmp_path / "film.gif", hold=0)
    assert [title for title, *_ in seen] == [f"iteration {i}" for i in frames.iterations]
    for Z, (_, x, y, drawn) in zip(frames.embeddings, seen, strict=True):
        assert x[0] < Z[:, 0].min() < Z[:, 0].max() < x[1]
        assert y[0] < Z[:, 1].min() < Z[:, 1].max() < y[1]
        assert x[1] - x[0] == pytest.approx(y[1] - y[0])
        np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(Z, axis=0))
    widths = [x[1] - x[0] for _, x, *_ in seen]
    assert widths == sorted(widths)
    assert widths[-1] > 3 * widths[0]


def test_a_collapsed_frame_has_a_view(tmp_path):
    path = plotting.animate([np.zeros((4, 2))], path=tmp_path / "point.gif", hold=0, dpi=30)
    assert path.stat().st_size > 0


def test_a_film_needs_ffmpeg(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(FFMpegWriter, "isAvailable", classmethod(lambda cls: False))
    with pytest.raises(
        RuntimeError, match=r"needs the program ffmpeg.*write a GIF: path='.*\.gif'"
    ):
        plotting.animate(growing(rng, 2), path=tmp_path / "film.mp4")


@pytest.mark.skipif(not FFMpegWriter.isAvailable(), reason="needs ffmpeg")
def test_a_film_is_written(rng, tmp_path):
    path = plotting.animate(growing(rng, 3), path=tmp_path / "film.mp4", dpi=50)
    assert b"ftyp" in path.read_bytes()[:16]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": "film.avi"}, r"'path' parameter of animate must end in '\.gif' or '\.mp4'"),
        ({"frames": []}, "'frames' parameter of animate must hold at least one frame"),
        ({"frames": [np.zeros((3, 3))]}, r"shape \(n, 2\)\. Frame 0 has shape \(3, 3\)"),
        ({"frames": [np.zeros((3, 2)), np.zeros((4, 2))]}, r"Frame 1 has shape \(4, 2\)"),
        ({"fps": 0}, r"'fps' parameter of animate must be a float in \(0, inf\)\. Got 0"),
        ({"hold": -1}, r"'hold' parameter of animate must be a float in \[0, inf\)\. Got -1"),
        ({"y": [0, 1]}, r"Z has 3 rows but y has shape \(2,\)"),
    ],
)
def test_bad_arguments_of_an_animation_are_named(change, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = {"frames": [np.zeros((3, 2))], "path": "film.gif", **change}
    with pytest.raises(ValueError, match=message):
        plotting.animate(**arguments)
    assert not list(tmp_path.iterdir())


class Growing(support.CallbackSupportMixin):
    """Doubles its places in each iteration, and halves them at the end."""

    def __init__(self, max_iter=12, shows=True):
        self.max_iter, self.shows = max_iter, shows

    @support.with_callbacks
    def fit(self, X, y=None):
        from types import SimpleNamespace

        Z = np.outer(np.linspace(-1.0, 1.0, len(X)), [1.0, 0.0]) + 1e-9
        report = support.IterationReporter(self, X, max_iter=self.max_iter)
        for _ in range(self.max_iter):
            Z *= 2.0
            if self.shows:
                self.embedding_ = Z
            report(SimpleNamespace(history={"loss": [0.0]}))
        Z /= 2.0
        report.close()
        return self


def recorded(frames):
    return [Z[-1, 0] for Z in frames.embeddings]


@needs_callbacks
def test_frames_are_copies_every_so_many_iterations():
    frames = Frames(every=5)
    Growing().set_callbacks(frames).fit(np.zeros((3, 1)))
    assert frames.iterations == [5, 10, 12]
    assert recorded(frames) == [2.0**5, 2.0**10, 2.0**11]
    assert all(Z.dtype == np.float32 and Z.shape == (3, 2) for Z in frames.embeddings)


@needs_callbacks
def test_the_last_frame_is_that_of_the_finished_fit():
    frames = Frames(every=4)
    Growing().set_callbacks(frames).fit(np.zeros((3, 1)))
    assert frames.iterations == [4, 8, 12]
    assert recorded(frames)[-1] == 2.0**11


@needs_callbacks
@pytest.mark.parametrize("max_iter", [3, 16, 17, 40, 100])
def test_there_are_never_more_frames_than_asked_for(max_iter):
    frames = Frames(max_frames=6)
    Growing(max_iter).set_callbacks(frames).fit(np.zeros((3, 1)))
    assert frames.iterations[-1] == max_iter
    assert max(3, 6 // 2) <= len(frames.iterations) <= 6
    steps = np.diff([0, *frames.iterations[:-1]])
    assert len(set(steps)) == 1  # evenly spaced, the last aside
    assert recorded(frames)[:-1] == [2.0**i for i in frames.iterations[:-1]]


@needs_callbacks
def test_a_second_fit_begins_anew_and_pickles_keep_frames():
    import pickle

    frames = Frames(every=5)
    estimator = Growing().set_callbacks(frames)
    estimator.fit(np.zeros((3, 1)))
    estimator.fit(np.zeros((4, 1)))
    assert frames.iterations == [5, 10, 12]
    assert all(len(Z) == 4 for Z in frames.embeddings)
    assert pickle.loads(pickle.dumps(frames)).iterations == frames.iterations


@needs_callbacks
def test_frames_need_an_embedding():
    with pytest.raises(AttributeError, match=r"shows its embedding .*'embedding_'. Growing does"):
        Growing(shows=False).set_callbacks(Frames()).fit(np.zeros((3, 1)))


@pytest.mark.parametrize("name", ["every", "max_frames"])
def test_frames_refuse_bad_counts(name):
    with pytest.raises(ValueError, match=rf"'{name}' parameter of Frames must be an int .* Got 0"):
        Frames(**{name: 0})


@needs_callbacks
def test_frames_of_a_fit_of_ksne(rng, tmp_path):
    from vicinal import KSNE

    X = rng.normal(size=(40, 5))
    frames = Frames(every=10)
    model = KSNE(perplexity=8, max_iter=40, early_exaggeration_iter=20, random_state=0)
    model.set_callbacks(frames).fit(X)
    assert frames.iterations == [10, 20, 30, 40]
    centred = model.embedding_ - model.embedding_.mean(axis=0)
    np.testing.assert_array_equal(frames.embeddings[-1], centred.astype(np.float32))
    assert not np.array_equal(frames.embeddings[0], frames.embeddings[1])
    path = plotting.animate(frames, path=tmp_path / "ksne.gif", hold=0, dpi=40)
    with Image.open(path) as film:
        assert film.n_frames == 4


def test_curves_of_several_embeddings(rng):
    X = rng.normal(size=(60, 5))
    y = (X[:, 0] > 0).astype(int)
    embeddings = {"first": X[:, :2], "noise": rng.normal(size=(60, 2))}
    figure = plotting.embedding_quality(embeddings, X, y, n_neighbors=[1, 5, 9, 80])
    curves, accuracies = figure.axes
    assert curves.get_xscale() == "log"
    for (name, Z), line, text in zip(
        embeddings.items(), curves.lines, curves.get_legend().get_texts(), strict=True
    ):
        K, R = r_nx_curve(X, Z)
        np.testing.assert_array_equal(line.get_xdata(), K)
        np.testing.assert_array_equal(line.get_ydata(), R)
        assert text.get_text() == f"{name} ({r_nx_auc(X, Z):.3f})"
    for Z, line in zip(embeddings.values(), accuracies.lines, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [1, 5, 9])
        np.testing.assert_array_equal(line.get_ydata(), knn_accuracy(Z, y, [1, 5, 9]))


def test_curves_without_labels_and_in_given_axes(rng):
    X = rng.normal(size=(30, 5))
    assert len(plotting.embedding_quality({"a": X[:, :2]}, X).axes) == 1
    figure, axes = plt.subplots(1, 2)
    y = np.arange(30) % 2
    assert plotting.embedding_quality({"a": X[:, :2]}, X, y, axes) is figure
    with pytest.raises(ValueError, match=r"draws 1 panels. Got 2 axes"):
        plotting.embedding_quality({"a": X[:, :2]}, X, axes=axes)
    with pytest.raises(ValueError, match="must hold at least one embedding"):
        plotting.embedding_quality({}, X)
