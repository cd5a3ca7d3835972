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


def assert_golden(name, found):
    wrong = make_golden.disagreements(name, TOP, GOLDEN[name], found)
    gaps = {key: f"{gap:.1e}" for key, gap in make_golden.compare(GOLDEN[name], found).items()}
    assert not wrong, {key: gaps[key] for key in wrong}


def test_nothing_is_missing():
    assert GOLDEN.keys() == CONFIGURATIONS.keys()


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configuration(name):
    assert_golden(name, CONFIGURATIONS[name]())
