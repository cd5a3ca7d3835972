"""Every configuration gives the same results as when the golden results were written.

On the processor and with the package versions named in the head of ``golden.npz``, fits of more
than 600 rows must give the same bits.  Elsewhere, and for small fits everywhere,
``make_golden.close`` defines the tolerances.  When results change on purpose, run
``make_golden.py`` and give the reason in the changelog.
"""

import configurations
import make_golden
import pytest

TOP, GOLDEN = make_golden.load()
CONFIGURATIONS = {**configurations.LARGE, **configurations.SMALL}
same_releases = pytest.mark.skipif(
    TOP["versions"] != make_golden.versions(), reason="files of other releases need not load"
)


def assert_golden(name, found):
    wrong = make_golden.disagreements(name, TOP, GOLDEN[name], found)
    gaps = {key: f"{gap:.1e}" for key, gap in make_golden.compare(GOLDEN[name], found).items()}
    assert not wrong, {key: gaps[key] for key in wrong}


def test_nothing_is_missing():
    assert GOLDEN.keys() == CONFIGURATIONS.keys() | configurations.FILES.keys()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configuration(name):
    assert_golden(name, CONFIGURATIONS[name]())


@same_releases
@pytest.mark.parametrize("name", configurations.FILES)
def test_a_file_predicts_and_learns_on(name):
    assert_golden(name, make_golden.resume(name))


def test_a_checkpoint_ends_where_the_whole_fit_does():
    whole, resumed = GOLDEN["whole_fit"], GOLDEN["checkpoint.joblib"]
    wrong = make_golden.compare(whole, {key: resumed[key] for key in whole})
    # iterations count the last fit alone, and it evaluates once more when it resumes
    assert wrong.keys() == {"n_iter_", "history_.n_evaluations"}
    assert resumed["loaded.n_iter_"] + resumed["n_iter_"] == whole["n_iter_"]
