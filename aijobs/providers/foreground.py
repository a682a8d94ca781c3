"""What adapters share whose providers do nothing in the background."""

from aijobs.core.model import ErrorClass, Failure
from aijobs.providers.contract import Call, PollFailed


class Foreground:
    """Nothing to ask after and nothing to cancel: when the call has ended, so has the work."""

    name: str

    async def poll(self, call: Call, provider_job_id: str) -> PollFailed:  # noqa: ARG002  # the protocol's
        """There is no such work. Reached only when a type's provider was changed under work already begun."""
        message = f"provider {self.name} does no work in the background; the job was begun with another"
        failure = Failure(error_class=ErrorClass.INTERNAL, code="no_background", message=message)
        return PollFailed(failure=failure, gone=True)

    async def cancel(self, call: Call, provider_job_id: str) -> PollFailed:
        """As `poll`."""
        return await self.poll(call, provider_job_id)

    async def close(self) -> None:
        """Nothing is held; the connections belong to the client."""
