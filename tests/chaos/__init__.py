"""Jobs under every kind of trouble at once, and the account of what became of them.

`python -m tests.chaos --minutes N [--seed S] [--database sqlite|postgresql|both] [--json]`
"""
