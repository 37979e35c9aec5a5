#!/bin/sh
# Builds the fake, fetches the SDK into .venv, and runs the tests.
set -eu
cd "$(dirname "$0")"
cargo build --quiet --package acp-fake-server
export ACP_FAKE_SERVER="${ACP_FAKE_SERVER:-${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}/debug/acp-fake-server}"
[ -d .venv ] || python3 -m venv .venv
.venv/bin/pip install --quiet --requirement requirements.txt
exec .venv/bin/python -m unittest -v
