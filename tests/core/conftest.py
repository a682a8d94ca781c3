"""Fixtures for the core's tests."""

from pathlib import Path

import pytest

from tests.support.config_file import ConfigFile


@pytest.fixture
def config(tmp_path: Path) -> ConfigFile:
    """A configuration file to be written."""
    return ConfigFile(tmp_path / "aijobs.yaml")
