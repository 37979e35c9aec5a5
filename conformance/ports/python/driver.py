"""The driver of toolnexus.acp (spec/driver-protocol.md). It adapts and fixes nothing."""

import importlib.util
import json
import re
import sys
import threading
import traceback
import types

# Importing `toolnexus` imports every part of it, which takes longer than most transcripts and has no part in
# this one: `toolnexus.acp` needs nothing but the standard library. An empty package stands in its place.
package = types.ModuleType("toolnexus")
package.__path__ = importlib.util.find_spec("toolnexus").submodule_search_locations
sys.modules["toolnexus"] = package

from toolnexus.acp import ACPError, ACPOptions, ACPPermissionTimeoutError, load_acp  # noqa: E402

VERSION = "0.21.0"  # as in requirements.txt
CAPABILITIES = ["mode", "deadline", "parts", "is_alive", "model_source", "process"]

# Options of `load` whose capability the library does not have, and with it the option, are `unsupported`.
# `first_allow` is what it always does.
LOAD_OPTIONS = {"command", "env", "cwd", "mode", "deadline_ms", "permission"}


class Unsupported(Exception):
    """The library has no such operation or option."""


class Driver:
    def __init__(self):
        self.client = None
        self.output = threading.Lock()

    def hello(self, args):
        port = {"name": "python", "language": "python", "version": VERSION}
        return {"protocol": 1, "port": port, "capabilities": CAPABILITIES}

    def load(self, args):
        for option in args.keys() - LOAD_OPTIONS:
            raise Unsupported(f"load with {option}")
        if args.get("permission", "first_allow") != "first_allow":
            raise Unsupported(f"the permission {args['permission']}")
        program, *arguments = args["command"] or [""]
        options = ACPOptions(program, arguments, args.get("cwd"), args["env"], mode=args.get("mode"))
        if "deadline_ms" in args:
            # The limit is named after permissions and bounds the turn. There is no way to have none.
            milliseconds = args["deadline_ms"]
            options.permission_timeout = milliseconds / 1000 if milliseconds else threading.TIMEOUT_MAX
        self.client = load_acp(options)
        return {}

    def generate(self, args):
        for option in args.keys() - {"messages"}:
            raise Unsupported(f"generate with {option}")
        content = self.client.generate(args)["content"]
        # Half a character, which a string of Python can hold and JSON cannot, is shown by its number.
        return {"content": content.encode("utf-8", "backslashreplace").decode()}

    def is_alive(self, args):
        return {"alive": self.client is not None and self.client.is_alive()}

    def close(self, args):
        if self.client is not None:
            self.client.close()
        return {}

    def run(self, request):
        try:
            operation = {
                "hello": self.hello,
                "load": self.load,
                "generate": self.generate,
                "is_alive": self.is_alive,
                "close": self.close,
            }.get(request["op"])
            if operation is None:
                raise Unsupported(request["op"])
            outcome = {"ok": operation(request["args"])}
        except Unsupported as what:
            outcome = {"unsupported": str(what)}
        except (ACPError, OSError) as error:
            outcome = {"err": describe(error, request["args"])}
        except Exception:
            outcome = {"crash": traceback.format_exc()}
        self.answer(request, outcome)

    def answer(self, request, outcome):
        with self.output:
            print(json.dumps({"seq": request["seq"], **outcome}), flush=True)


def describe(error, args):
    """An error as the driver protocol has it, from nothing but what the library tells: type and text."""
    return {**kind(error, args), "message": str(error)}


def kind(error, args):
    text = str(error)
    if isinstance(error, OSError):
        # `load_acp` lets the errors of subprocess.Popen through, which name the file that is at fault.
        if error.filename == args.get("cwd"):
            return {"kind": "invalid_options"}
        return {"kind": "spawn_failed", "program": error.filename}
    if isinstance(error, ACPPermissionTimeoutError):
        return {"kind": "deadline_exceeded"}
    if timed_out := re.match(r"acp: (\S+) timed out", text):
        return {"kind": "startup_timeout", "method": timed_out[1]}
    if text.startswith("acp: failed to write to child process"):
        return {"kind": "closed" if "closed file" in text else "agent_exited"}
    if "child process closed the connection" in text:
        return {"kind": "agent_exited"}
    # What is left is `acp error CODE: MESSAGE`.
    code = re.match(r"acp error (-?\d+):", text)
    if code is None:
        return {"kind": "rejected"}
    if code[1] == "-32000":
        return {"kind": "auth_required"}
    return {"kind": "rejected", "code": int(code[1])}


def main():
    driver = Driver()
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "bye":
            driver.answer(request, {"ok": {}})
            return
        # Whatever may wait for the agent does so on a thread of its own, as the library blocks.
        threading.Thread(target=driver.run, args=[request], daemon=True).start()


main()
