"""The official Python SDK as a measured client: python python-sdk.py ORDER."""

import asyncio
import os
import time

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AgentMessageChunk, AllowedOutcome, RequestPermissionResponse, TextContentBlock

from measure import Outcome, cpu_ns, order


class Client:
    def __init__(self):
        self.texts = []

    async def session_update(self, session_id, update, **_):
        if isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            self.texts.append(update.content.text)

    async def request_permission(self, session_id, tool_call, options, **_):
        option = next(option for option in options if option.kind == "allow_once")
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option.option_id))


class Running:
    def __init__(self, agent):
        self.client = Client()
        program, *arguments = agent
        # It takes a line of 32 MiB for a mistake otherwise.
        self.spawn = spawn_agent_process(self.client, program, *arguments, transport_kwargs={"limit": 1 << 30})

    async def __aenter__(self):
        self.agent, _ = await self.spawn.__aenter__()
        await self.agent.initialize(protocol_version=PROTOCOL_VERSION)
        self.session = (await self.agent.new_session(cwd=os.getcwd(), mcp_servers=[])).session_id
        return self

    async def __aexit__(self, *error):
        await self.spawn.__aexit__(*error)

    async def turn(self, script):
        self.client.texts = []
        await self.agent.prompt(session_id=self.session, prompt=[text_block(script)])
        return "".join(self.client.texts)


async def main():
    agent, work = order()
    outcome = Outcome()
    if work["kind"] == "turns":
        async with Running(agent) as running:
            for _ in range(work["warm_up"]):
                await running.turn("bench echo")
            cpu = cpu_ns()
            for _ in range(work["count"]):
                start = time.perf_counter_ns()
                outcome.add(start, await running.turn(work["script"]))
            outcome.cpu = cpu_ns() - cpu
    elif work["kind"] == "cycles":
        cpu = cpu_ns()
        for _ in range(work["count"]):
            start = time.perf_counter_ns()
            async with Running(agent) as running:
                text = await running.turn(work["script"])
            outcome.add(start, text)
        outcome.cpu = cpu_ns() - cpu
    else:
        raise SystemExit(f"this client does not do {work['kind']}")
    outcome.print()


asyncio.run(main())
