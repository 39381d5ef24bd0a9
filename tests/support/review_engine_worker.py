"""An engine on a directory in a process of its own: ``hold`` it, ``say`` something, or look.

What it tells is a line of JSON on stdout. One that holds it ends when its stdin does.
"""

import asyncio
import json
import sys

from durably_runner import DirectoryInUse, Engine
from review_job import agent_of, texts


async def say(engine):
    session = engine.create(agent_of("Hello.")[0])
    await session.send("one")
    return {"session": session.session_id}


async def hold(engine):
    told = await say(engine)
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    return told


async def look(engine, session_id):
    await engine.attach(session_id, agent_of()[0])
    session = await engine.resume(session_id)
    page = await session.history(types=None)
    return {"heard": texts(item.entry for item in page.items)}


async def main(directory, step, *words):
    try:
        engine = Engine.local(directory)
    except DirectoryInUse as error:
        told = {"in use": error.directory, "said": str(error), "hint": error.hint}
    else:
        async with engine:
            told = await {"say": say, "hold": hold, "look": look}[step](engine, *words)
    sys.stdout.write(json.dumps(told) + "\n")


asyncio.run(main(*sys.argv[1:]))
