"""Runtime shape and dtype checks on every annotated operator while the tests run.

The checks triple the cost of a small forward, so the folders that run whole models for minutes switch them off:
what they run is checked in the other folders.
"""

from pathlib import Path

import jaxtyping
import pytest

jaxtyping.install_import_hook(["shoal.formats", "shoal.ops", "shoal.model", "shoal.weights"], "beartype.beartype")

import torch  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

# Tests share two cores; torch's own threads would only fight each other.
torch.set_num_threads(1)

settings.register_profile(
    "shoal",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("shoal")

DATA = Path(__file__).parent / "data"
# "tests": the files beside this one, which load the miniature and ask it.
LONG_RUNNING = {
    *("engine", "geometry", "sameness", "oracle", "mutations", "bench", "semantic", "serve"),
    *("tracing", "cli", "eval", "tests"),
}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before the fixtures of all scopes, which run models too."""
    jaxtyping.config.update("jaxtyping_disable", item.path.parent.name in LONG_RUNNING)


@pytest.fixture(scope="session")
def goldens() -> Path:
    """The released code's results on the miniature."""
    return DATA / "oracle" / "goldens"
