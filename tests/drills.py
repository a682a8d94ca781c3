"""`python -m tests.drills`: break one promise after the other, and print what the drill of it says.

Exit code 1 when a drill passes where it should have failed, or misses the reason.
"""

import contextlib
import sys
import tempfile

from aijobs.store.engine import open_store
from tests.support.breaking import BREAKS, NOTICED, broken, drop_key
from tests.support.drills import Run, noticed, run_side_by_side


def main() -> int:
    """Run all, print a table."""
    with tempfile.TemporaryDirectory() as folder:
        without_key = f"sqlite:///{folder}/jobs.db"
        with contextlib.closing(open_store(without_key, create=True)) as store:
            drop_key(store)
        stores = {"no_key": without_key}
        results = run_side_by_side(
            [Run(one.drill, stores.get(name), broken(name)) for name, one in NOTICED.items()]
        )
    print("| drill | broken by | seen |\n| --- | --- | --- |")
    good = True
    for name, result in zip(NOTICED, results, strict=True):
        seen = noticed(NOTICED[name], result)
        if seen is None:
            good = False
            print(result.out, result.err, file=sys.stderr)
        broken_by = (BREAKS[name].__doc__ or "").rstrip(".")
        print(f"| {NOTICED[name].drill} | {broken_by} | {seen or 'NOT WHAT IS BROKEN'} |")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
