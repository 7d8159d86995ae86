#!/usr/bin/env bash
# Builds the npm package and runs its tests: without a browser, and in a headless Chromium with WebGPU in
# software. Called by test.sh. Where Node.js, the package registry or Chromium cannot be had, it says what was
# left out, and fails only if GRADLOOM_NEEDS_WEB is set.
set -euo pipefail
cd "$(dirname "$0")/../web"

without() {
  echo "left out: $*" >&2
  [ -z "${GRADLOOM_NEEDS_WEB:-}" ] || exit 1
  exit 0
}

if ! command -v npm >/dev/null && command -v apt-get >/dev/null; then
  sudo=$([ "$(id -u)" = 0 ] || echo sudo)
  { $sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends nodejs npm; } || true
fi
command -v npm >/dev/null || without "the tests of the npm package, as there is no Node.js"
[ "$(node -p 'process.versions.node.split(".")[0]')" -ge 20 ] || without "the tests of the npm package, as Node.js is older than 20"
for target in wasm32-unknown-unknown wasm32-wasip1-threads; do
  rustup target list --installed | grep -q "$target" || rustup target add "$target" ||
    without "the tests of the npm package, as Rust's $target is not there"
done
npm ci --no-audit --no-fund --loglevel=error || without "the tests of the npm package, as its tools could not be downloaded"

npm run wasm
npm run build
npm run check
npm test
npm run test:samples
chromium=${CHROMIUM:-/usr/bin/chromium}
[ -x "$chromium" ] || without "the tests in a browser, as there is no $chromium"
CHROMIUM="$chromium" npm run test:browser
CHROMIUM="$chromium" npm run test:package
