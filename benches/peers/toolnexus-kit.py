"""toolnexus.acp as a measured client: python toolnexus-kit.py ORDER."""

import importlib.util
import sys
import threading
import time
import types

# Importing `toolnexus` imports every part of it. `toolnexus.acp` needs nothing but the standard library, so an empty
# package stands in its place.
package = types.ModuleType("toolnexus")
package.__path__ = importlib.util.find_spec("toolnexus").submodule_search_locations
sys.modules["toolnexus"] = package

from toolnexus.acp import ACPOptions, load_acp  # noqa: E402

from measure import Outcome, cpu_ns, order  # noqa: E402


def load(agent):
    program, *arguments = agent
    options = ACPOptions(program, arguments)
    # The limit is named after permissions and bounds the turn.
    options.permission_timeout = threading.TIMEOUT_MAX
    return load_acp(options)


def turn(client, script):
    return client.generate({"messages": [{"role": "user", "content": script}]})["content"]


def main():
    agent, work = order()
    outcome = Outcome()
    if work["kind"] == "turns":
        client = load(agent)
        for _ in range(work["warm_up"]):
            turn(client, "bench echo")
        cpu = cpu_ns()
        for _ in range(work["count"]):
            start = time.perf_counter_ns()
            outcome.add(start, turn(client, work["script"]))
        outcome.cpu = cpu_ns() - cpu
        client.close()
    elif work["kind"] == "cycles":
        cpu = cpu_ns()
        for _ in range(work["count"]):
            start = time.perf_counter_ns()
            client = load(agent)
            text = turn(client, work["script"])
            client.close()
            outcome.add(start, text)
        outcome.cpu = cpu_ns() - cpu
    else:
        raise SystemExit(f"this client does not do {work['kind']}")
    outcome.print()


main()
