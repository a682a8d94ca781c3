"""Alembic environment and the numbered, forward-only schema steps."""
