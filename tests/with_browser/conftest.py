"""Report pages in a headless Chromium of the system: `make test-browser`.

These tests run only when this folder, or a file of it, is named on the command line.
"""

import os
import shutil
from pathlib import Path

import pytest
from with_browser.reader import Reader

HERE = Path(__file__).parent
SCREENSHOTS = HERE / "screenshots"
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")
# WebGL in software: no graphics card is asked for.
FLAGS = ["--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def pytest_ignore_collect(collection_path, config):
    """Leave the tests of this folder out unless it is named."""
    named = (config.invocation_params.dir / str(arg).split("::")[0] for arg in config.args)
    if any(path.resolve().is_relative_to(HERE) for path in named):
        return None
    return collection_path.is_relative_to(HERE) or None


def chromium():
    """The path of Chromium, or a failure that says how to get it."""
    named = os.environ.get("VICINAL_CHROMIUM")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, CHROMIUMS)), None)
    if found is None:
        what = f"VICINAL_CHROMIUM={named} cannot be run." if named else "Chromium is missing."
        pytest.fail(f"{what} Run 'apt install chromium', or set VICINAL_CHROMIUM to its path.")
    return found


@pytest.fixture(scope="session")
def launch():
    """Starts a Chromium with the given flags."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.fail("The package playwright is missing: pip install 'vicinal[browser]'")
    path = chromium()
    as_root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as driver:
        yield lambda *flags: driver.chromium.launch(executable_path=path, args=[*flags, *as_root])


@pytest.fixture(scope="session")
def browser(launch):
    browser = launch(*FLAGS)
    yield browser
    browser.close()


@pytest.fixture
def read(browser, tmp_path):
    """Opens contents in a new window; at the end, there were no errors and no requests."""
    readers = []

    def open_page(contents, *, browser=browser, ready=True, **context):
        reader = Reader(browser, contents, tmp_path / f"report{len(readers)}.html", ready, context)
        readers.append(reader)
        return reader

    yield open_page
    for reader in readers:
        reader.close()


@pytest.fixture
def keep():
    """Saves a screenshot, for people to look at."""
    SCREENSHOTS.mkdir(exist_ok=True)

    def save(reader, name, *, full_page=True):
        reader.page.wait_for_timeout(300)
        reader.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=full_page)

    return save
