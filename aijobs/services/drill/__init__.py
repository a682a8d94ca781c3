"""The drills behind `aijobs drill`: the promises of this tool, put to the test by force.

Each runs real worker processes against a real HTTP server that plays the provider. The store may be one that
others use: a drill's types, users, workers and provider have names of their own, and everything it made is
removed at its end.
"""

from aijobs.services.drill.drills import NAMES, Drills
from aijobs.services.drill.ground import Surroundings
from aijobs.services.drill.leftovers import Leftover
from aijobs.services.drill.rate_limit import Refusal, refusal_of
from aijobs.services.drill.report import Check, DrillReport

__all__ = ["NAMES", "Check", "DrillReport", "Drills", "Leftover", "Refusal", "Surroundings", "refusal_of"]
