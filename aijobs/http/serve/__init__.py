"""`serve`: webhooks, cron triggers, jobs and their state over HTTP."""

from aijobs.http.serve.app import build
from aijobs.http.serve.server import Server
from aijobs.http.serve.serving import Bounds, Secrets, Serving

__all__ = ["Bounds", "Secrets", "Server", "Serving", "build"]
