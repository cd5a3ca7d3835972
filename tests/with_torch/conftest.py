"""Without torch, the tests of this folder are not collected; `make test-torch` runs them."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["test_*.py"]
