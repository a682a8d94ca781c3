"""ASGI applications: the provider simulator and `serve`."""
