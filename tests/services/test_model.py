"""A bounded number of random lives of a store against a small model; longer with `python -m tests.model`."""

from aijobs.store.engine import Store
from tests.model import run


def test_the_store_does_what_the_model_does_whatever_happens_in_which_order(store: Store) -> None:
    run(store, examples=10, steps=25)
