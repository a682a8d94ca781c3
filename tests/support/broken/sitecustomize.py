"""Python imports this by itself where this folder is on its path: it breaks what BREAK names, there only."""

import os

if BREAK := os.environ.get("BREAK"):
    from tests.support.breaking import break_down

    break_down(BREAK)
