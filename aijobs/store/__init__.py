"""The one home of SQL: tables, statements and migrations for SQLite and PostgreSQL."""
