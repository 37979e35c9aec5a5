#!/bin/sh
# Builds the fake, fetches the SDK into node_modules, and runs the tests.
set -eu
cd "$(dirname "$0")"
cargo build --quiet --package acp-fake-server
export ACP_FAKE_SERVER="${ACP_FAKE_SERVER:-${CARGO_TARGET_DIR:-$(cd ../.. && pwd)/target}/debug/acp-fake-server}"
npm ci --no-audit --no-fund --ignore-scripts --silent
exec npm test --silent
