#!/usr/bin/env bash
# Builds the static site: the guide by mdBook, and beside it the demo with the built npm package (web/dist).
# In: a folder (target/site unless given). Without web/dist the demo is left out, unless GRADLOOM_NEEDS_WEB is
# set. Any server of files will do: python3 -m http.server -d target/site
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.5.4
site="${1:-target/site}"
mdbook=$(command -v mdbook || true)
if [ "$("${mdbook:-false}" --version 2>/dev/null)" != "mdbook v$version" ]; then
  mdbook="$PWD/target/tools/bin/mdbook"
  if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    echo "installing mdbook $version into target/tools"
    # Not optimised: built in a fraction of the time, it still makes the book within a second.
    env -u CARGO_TARGET_DIR cargo install mdbook --version "$version" --locked --debug --quiet \
      --no-default-features --features search --root target/tools
  fi
fi

rm -rf "$site"
mkdir -p "$site/web"
"$mdbook" build docs/guide --dest-dir "$(cd "$site" && pwd)/guide"
# Pages outside of the guide are there as they are; mdBook takes links to them for pages of its own.
cp README.md "$site/"
cp web/README.md "$site/web/"
find "$site/guide" -name '*.html' -exec sed -Ei 's#href="\.\./(\.\./)+((web/)?README)\.html#href="../\2.md#g' {} +

demo='<li>The demo is built with the npm package.</li>'
if [ -e web/dist/gradloom.wasm ]; then
  mkdir -p "$site/samples"
  cp -r web/demo web/dist "$site/"
  cp -r web/samples/dist web/samples/*.ts "$site/samples/"
  demo='<li><a href="demo/">Demo</a>: ten models, trained in this browser</li>'
elif [ -n "${GRADLOOM_NEEDS_WEB:-}" ]; then
  echo "web/dist is missing: cd web && npm ci && npm run wasm && npm run build" >&2
  exit 1
else
  echo "left out: the demo, as web/dist is not built" >&2
fi
cat >"$site/index.html" <<HTML
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>gradloom</title>
<style>body { font: 1.1rem/1.6 system-ui, sans-serif; max-width: 40rem; margin: 4rem auto; padding: 0 1rem }</style>
<h1>gradloom</h1>
<p>A tensor compiler in Rust: it traces a model once, derives the backward pass and the optimizer into the same
graph, and replays a training step on CPUs, on GPUs, and in the browser.</p>
<ul>
<li><a href="guide/">Guide</a></li>
$demo
</ul>
</html>
HTML
echo "$site"
