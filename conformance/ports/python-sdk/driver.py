"""The driver of the official Python SDK (spec/driver-protocol.md). It adapts and fixes nothing."""

import asyncio
import json
import sys
import traceback

VERSION = "0.12.1"  # as in requirements.txt
CAPABILITIES = ["cancel", "lanes", "messages", "mode", "parts", "permission", "is_alive", "process"]


def main():
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "hello":
            port = {"name": "python-sdk", "language": "python", "version": VERSION}
            answer(request, ok={"protocol": 1, "port": port, "capabilities": CAPABILITIES})
        elif request["op"] == "bye":
            return answer(request, ok={})
        else:
            # Only now is the SDK imported: a transcript that needs what it cannot do asks for no more than this.
            return asyncio.run(serve(request))


def import_sdk():
    """Imports the SDK in half the time that it takes by itself, which is more than most transcripts take.

    Its models read their own source for descriptions of their fields, and make all validators at once. Neither
    has a part in what the SDK does.
    """
    from pydantic import BaseModel
    from pydantic._internal import _fields

    BaseModel.model_config["defer_build"] = True
    _fields.extract_docstrings_from_cls = lambda cls, **_: {}
    import application

    return application


async def serve(request):
    application = import_sdk()
    app = application.Application()

    async def run(request):
        try:
            operation = getattr(app, request["op"], None)
            if operation is None:
                raise application.Unsupported(request["op"])
            answer(request, ok=await operation(request["args"], request["seq"]) or {})
        except application.Unsupported as what:
            answer(request, unsupported=str(what))
        except application.Failure as failure:
            answer(request, err=failure.fields)
        except Exception:
            answer(request, crash=traceback.format_exc())

    running = set()
    while request["op"] != "bye":
        # Nothing is awaited here but the next request: operations run on the side.
        task = asyncio.create_task(run(request))
        running.add(task)
        task.add_done_callback(running.discard)
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            return
        request = json.loads(line)
    answer(request, ok={})


def answer(request, **outcome):
    print(json.dumps({"seq": request["seq"], **outcome}), flush=True)


main()
