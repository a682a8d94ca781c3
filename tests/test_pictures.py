"""The pictures in the README show what the commands print; `python -m tests.pictures` makes them anew."""

import html
import re

import pytest
import yaml

from aijobs.core.settings import Settings
from aijobs.store.engine import open_store
from tests import pictures


@pytest.fixture
def staged(tmp_path, clock):
    settings = Settings.model_validate(yaml.safe_load(pictures.CONFIG))
    config = tmp_path / "aijobs.yaml"
    config.write_text(pictures.CONFIG)
    store = open_store(f"sqlite:///{tmp_path / 'jobs.db'}", create=True, clock=clock)
    pictures.stage(store, settings, clock)
    yield {"top": pictures.top(store, settings), "stats": pictures.stats(config, store)}
    store.close()


def words(name: str) -> list[str]:
    """What is written in a picture, without where: that depends on the version of rich."""
    drawn = (pictures.FOLDER / f"{name}.svg").read_text()
    texts = re.findall(r"<text[^>]*clip-path[^>]*>([^<]*)</text>", drawn)
    return html.unescape(" ".join(texts)).replace("\xa0", " ").split()


def test_the_pictures_show_what_the_commands_print(staged):
    for name, text in staged.items():
        assert words(name) == text.plain.split(), f"{name}: python -m tests.pictures"


def test_no_picture_fetches_anything():
    for name in ("top", "stats"):
        drawn = (pictures.FOLDER / f"{name}.svg").read_text()
        assert set(re.findall(r"https?://[^\"' ]+", drawn)) == {"http://www.w3.org/2000/svg"}
