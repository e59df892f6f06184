"""The run fixtures on the GPU: see run_fixtures.py."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from run_fixtures import FIXTURES, Fixture, Gpu, expand

PATHS = sorted(FIXTURES.glob("*.ptx"))


@pytest.fixture(scope="module")
def gpu():
    try:
        return Gpu()
    except (OSError, RuntimeError) as why:
        pytest.skip(f"skipped: no CUDA device ({why})")


@pytest.mark.gpu
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_gpu_gives_the_fixtures_bytes(path, gpu):
    fixture = Fixture(path)
    if fixture.skip:
        pytest.skip(f"skipped: {fixture.skip}")
    assert gpu.run(fixture) == []


def test_fixtures_are_read():
    assert PATHS
    assert expand("00ff*2 01") == bytes([0, 255, 0, 255, 1])
    for path in PATHS:
        assert Fixture(path).arguments, path
