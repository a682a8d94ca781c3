"""Adapters: our words on one side, one remote API on the other, over one shared HTTP client."""
