"""What hands out jobs and takes their ends, made and imported when first used: to enqueue needs none."""

from functools import cached_property
from typing import TYPE_CHECKING

from aijobs.core.clock import Chance
from aijobs.core.settings import Settings

if TYPE_CHECKING:
    from aijobs.services.coordinator.claiming import Claiming
    from aijobs.services.coordinator.finishing import Finishing
    from aijobs.services.coordinator.gates import Gates


class Machinery:
    """The parts of one configuration."""

    def __init__(self, settings: Settings, chance: Chance) -> None:
        self._settings = settings
        self._chance = chance

    @cached_property
    def gates(self) -> "Gates":
        """What lets calls through to the providers."""
        from aijobs.services.coordinator.gates import Gates

        return Gates(self._settings)

    @cached_property
    def claiming(self) -> "Claiming":
        """What leases jobs to workers."""
        from aijobs.services.coordinator.claiming import Claiming

        return Claiming(self._settings, self.gates)

    @cached_property
    def finishing(self) -> "Finishing":
        """What writes the ends of attempts."""
        from aijobs.core.retry import Policy
        from aijobs.services.coordinator.finishing import Finishing

        return Finishing(self._settings, Policy.from_settings(self._settings), self.gates, self._chance)
