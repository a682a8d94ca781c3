"""Words and decisions: pure values and functions, with no I/O, no clock and no randomness of their own."""
