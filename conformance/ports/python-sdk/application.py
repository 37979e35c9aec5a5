"""An application that uses the SDK as its documentation says, and has a host that steers it."""

import os
from contextlib import AsyncExitStack

from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.schema import (
    AgentMessageChunk,
    AllowedOutcome,
    DeniedOutcome,
    Implementation,
    RequestPermissionResponse,
    TextContentBlock,
)
from pydantic import ValidationError

LOAD_OPTIONS = {"command", "env", "cwd", "mode", "permission"}

# The kinds of option that each policy takes, the best first.
POLICIES = {
    "first_allow": [("allow_once", "allow_always")],
    "allow_once": [("allow_once",), ("allow_always",)],
    "reject": [("reject_once",), ("reject_always",)],
}


class Failure(Exception):
    """An error that the SDK told of, in the words of spec/errors.md."""

    def __init__(self, kind, message, **fields):
        super().__init__(message)
        given = {name: value for name, value in fields.items() if value is not None}
        self.fields = {"kind": kind, "message": message, **given}


class Unsupported(Exception):
    """The SDK has no such operation or option."""


class Turn:
    """What a turn has said so far: the chunks' texts by message, in a row."""

    def __init__(self, session_id):
        self.session_id = session_id
        self.cancelled = False
        self.messages = []

    def append(self, message_id, text):
        # Half a character, which a string of Python can hold and JSON cannot, is shown by its number.
        text = text.encode("utf-8", "backslashreplace").decode()
        if self.messages and self.messages[-1]["message_id"] == message_id:
            self.messages[-1]["text"] += text
        else:
            self.messages.append({"message_id": message_id, "text": text})

    @property
    def content(self):
        return "".join(message["text"] for message in self.messages)


class Application:
    """The SDK's client interface, and one method for each operation of the driver protocol."""

    def __init__(self):
        self.running = AsyncExitStack()
        self.process = None

    # What the SDK calls. It is asked for nothing else, as no other capability is declared.

    async def session_update(self, session_id, update, **_):
        turn = self.latest.get(session_id)
        if turn and isinstance(update, AgentMessageChunk) and isinstance(update.content, TextContentBlock):
            turn.append(update.message_id, update.content.text)

    async def request_permission(self, session_id, tool_call, options, **_):
        turn = self.latest.get(session_id)
        if not (turn and turn.cancelled):
            for kinds in POLICIES[self.policy]:
                for option in options:
                    if option.kind in kinds:
                        outcome = AllowedOutcome(outcome="selected", option_id=option.option_id)
                        return RequestPermissionResponse(outcome=outcome)
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))

    # What the host asks for.

    async def load(self, args, _):
        for option in args.keys() - LOAD_OPTIONS:
            raise Unsupported(f"load with {option}")
        self.policy = args.get("permission", "first_allow")
        if self.policy not in POLICIES:
            raise Unsupported(f"the permission {self.policy}")
        self.cwd = args.get("cwd") or os.getcwd()
        self.closed = False
        self.sessions, self.turns, self.latest, self.login = {}, {}, {}, None
        self.running = AsyncExitStack()
        program, *arguments = args["command"] or [""]
        spawn = spawn_agent_process(self, program, *arguments, env=args["env"], cwd=args.get("cwd"))
        try:
            self.agent, self.process = await self.running.enter_async_context(spawn)
        except OSError as error:
            if error.filename == args.get("cwd"):
                raise Failure("invalid_options", str(error)) from error
            raise Failure("spawn_failed", str(error), program=error.filename) from error
        try:
            client = Implementation(name="port-python-sdk", version="1.0.0")
            initialize = self.agent.initialize(protocol_version=PROTOCOL_VERSION, client_info=client)
            self.login = (await self.told("initialize", initialize)).auth_methods
            session = await self.lane({"lane": "main"}, None)
            if "mode" in args:
                mode = self.agent.set_session_mode(session_id=session["session_id"], mode_id=args["mode"])
                await self.told("session/set_mode", mode)
            return session
        except BaseException:
            await self.running.aclose()
            raise

    async def lane(self, args, _):
        new = self.agent.new_session(cwd=self.cwd, mcp_servers=[])
        session_id = (await self.told("session/new", new)).session_id
        self.sessions[args["lane"]] = session_id
        return {"session_id": session_id}

    async def generate(self, args, seq):
        for option in args.keys() - {"messages", "lane"}:
            raise Unsupported(f"generate with {option}")
        session_id = self.sessions[args.get("lane", "main")]
        content = next(m["content"] for m in reversed(args["messages"]) if m["role"] == "user")
        texts = [content] if isinstance(content, str) else [part["text"] for part in content]
        turn = self.turns[seq] = self.latest[session_id] = Turn(session_id)
        try:
            prompt = self.agent.prompt(session_id=session_id, prompt=[text_block(text) for text in texts])
            response = await self.told("session/prompt", prompt)
            if kind := {"cancelled": "cancelled", "refusal": "refused"}.get(response.stop_reason):
                raise Failure(kind, f"the turn ended with {response.stop_reason}")
        except Failure as failure:
            if turn.content:
                failure.fields["partial"] = turn.content
            raise
        finally:
            del self.turns[seq]
            if self.latest[session_id] is turn:
                del self.latest[session_id]
        return {"content": turn.content, "messages": turn.messages, "stop_reason": response.stop_reason}

    async def cancel(self, args, _):
        # A turn that has ended or is being cancelled has nothing to cancel.
        if (turn := self.turns.get(args["seq"])) and not turn.cancelled:
            turn.cancelled = True
            await self.agent.cancel(session_id=turn.session_id)

    async def is_alive(self, args, _):
        return {"alive": self.process is not None and self.process.returncode is None}

    async def close(self, args, _):
        self.closed = True
        await self.running.aclose()
        # Where another close is under way the one above returns at once.
        if self.process:
            await self.process.wait()

    async def told(self, method, call):
        """The SDK's answer to a call, or what it tells about its failure."""
        try:
            return await call
        except RequestError as error:
            if error.code == -32000:
                methods = [offered.id for offered in self.login or []]
                raise Failure("auth_required", str(error), methods=methods) from error
            raise Failure("rejected", str(error), method=method, code=error.code, data=error.data) from error
        except ConnectionError as error:
            raise Failure("closed" if self.closed else "agent_exited", str(error)) from error
        except ValidationError as error:
            faults = {fault["loc"]: fault for fault in error.errors()}
            if method == "session/prompt" and (fault := faults.get(("stopReason",))):
                found = None if fault["type"] == "missing" else fault["input"]
                raise Failure("unknown_stop_reason", str(error), stop_reason=found) from error
            raise Failure("invalid_response", str(error), method=method) from error
