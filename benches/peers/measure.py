"""What the measured clients in Python share. The order and the outcome are those of benches/src/order.rs."""

import json
import re
import resource
import sys
import time


def order():
    read = json.loads(sys.argv[1])
    return read["agent"], read["work"]


class Outcome:
    def __init__(self):
        self.samples, self.text_bytes, self.cpu = [], 0, 0

    def add(self, start, text):
        self.samples.append(time.perf_counter_ns() - start)
        self.text_bytes += len(text)

    def print(self):
        with open("/proc/self/status") as status:
            peak = int(re.search(r"VmHWM:\s*(\d+)", status.read())[1]) * 1024
        outcome = {"samples_ns": self.samples, "cpu_ns": self.cpu, "peak_rss": peak, "text_bytes": self.text_bytes}
        print(json.dumps(outcome))


def cpu_ns():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)
