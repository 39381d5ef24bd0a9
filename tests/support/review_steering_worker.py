"""A conversation whose process ends while its model is asked, after messages were steered."""

import asyncio
import os
import sys

import durably
from durably_runner import Agent, Conversation
from review_faults import EXIT
from review_job import thread_of


def dies(request):
    os._exit(EXIT)


async def main(url):
    async with durably.open(url) as storage:
        agent = Agent(name="clerk", model=dies)
        conversation = Conversation(agent, thread=thread_of(storage))
        conversation.steer("first")
        conversation.steer("second")
        await conversation.run("hello")


asyncio.run(main(sys.argv[1]))
