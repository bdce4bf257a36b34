"""Whether a rejection concerns one record or all calls."""

import asyncio

from assay.core.model_call import ModelRequest
from assay.engine.execution.rejections import ModelAdmission
from tests.engine.execution.test_limits import played


def test_a_call_that_succeeds_in_the_moment_of_a_rejection_shows_that_it_is_about_one_record() -> None:
    request = ModelRequest(stage="candidate", call_id="candidate", model="m", messages=())

    async def is_answered(_: ModelRequest) -> bool:
        return False

    async def found() -> bool | None:
        admission = ModelAdmission()
        admission.in_flight = 1
        rejected = asyncio.create_task(admission.is_records_own(1.0, check=is_answered, now=lambda: 2.0, stop=asyncio.Event()))
        await asyncio.sleep(0)
        admission.succeeded(request, started=1.0)
        return await asyncio.wait_for(rejected, 60)

    assert played(found()) is True
