"""A client of the official Python SDK, tested against transcripts.

`acp-fake-server play FILE` is the agent: it answers as the transcript says, and exits with 1, with the
difference on standard error, when the client does something else.
"""

import os
import unittest
from pathlib import Path

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.schema import AllowedOutcome, RequestPermissionResponse

ROOT = Path(__file__).resolve().parents[2]
FAKE = os.environ.get("ACP_FAKE_SERVER", str(ROOT / "target/debug/acp-fake-server"))


class Client:
    """The client under test: it gathers the answer text and allows everything once."""

    def __init__(self):
        self.answer = ""

    async def session_update(self, session_id, update, **_):
        if update.session_update == "agent_message_chunk" and session_id == self.session_id:
            self.answer += update.content.text

    async def request_permission(self, session_id, tool_call, options, **_):
        once = next(option for option in options if option.kind == "allow_once")
        outcome = AllowedOutcome(outcome="selected", option_id=once.option_id)
        return RequestPermissionResponse(outcome=outcome)

    async def ask(self, transcript, question):
        """One turn with the agent of a transcript, and how the agent ended."""
        file = ROOT / "fixtures" / f"{transcript}.jsonl"
        async with spawn_agent_process(self, FAKE, "play", str(file)) as (agent, process):
            await agent.initialize(protocol_version=PROTOCOL_VERSION)
            session = await agent.new_session(cwd=str(ROOT), mcp_servers=[])
            self.session_id = session.session_id
            await agent.prompt(session_id=self.session_id, prompt=[text_block(question)])
            process.stdin.close()
            return await process.wait()


class Transcripts(unittest.IsolatedAsyncioTestCase):
    async def test_text_of_another_session_never_enters_the_answer(self):
        client = Client()
        self.assertEqual(await client.ask("turn/other-session", "hi"), 0)
        self.assertEqual(client.answer, "mine")

    async def test_an_agent_that_asks_for_a_permission_goes_on(self):
        client = Client()
        self.assertEqual(await client.ask("recorded/text-around-tools", "use a tool"), 0)
        self.assertEqual(client.answer, "text 1 text 3 text 4")

    async def test_the_fake_says_what_the_client_did_wrong(self):
        # The transcript goes on with a second prompt, which this client never sends.
        self.assertEqual(await Client().ask("turn/two", "hi"), 1)


if __name__ == "__main__":
    unittest.main()
