#!/usr/bin/env bash
# Checks formatting, lints and documentation, and runs every test. Installs what it needs where it can.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints a heading with the wall-clock time so far.
step() { printf '\n== %s (at %d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

if ! command -v cc >/dev/null; then
  step "installing a linker"
  if command -v apt-get >/dev/null; then
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    $sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends gcc libc6-dev
  else
    echo "a C compiler (cc) is needed to link: install gcc or clang" >&2
    exit 1
  fi
fi
# Kernels for GPUs run on GPUs made of software: lavapipe, and, with the limits of a browser, SwiftShader,
# which comes with Chromium.
swiftshader=/usr/lib/chromium/vk_swiftshader_icd.json
if [ "$(uname -s)" = Linux ] && command -v apt-get >/dev/null; then
  missing=()
  ls /usr/share/vulkan/icd.d/*.json >/dev/null 2>&1 || missing+=(mesa-vulkan-drivers)
  ldconfig -p | grep -q libvulkan.so.1 || missing+=(libvulkan1)
  [ -e "$swiftshader" ] || missing+=(chromium)
  if [ ${#missing[@]} -gt 0 ]; then
    step "installing ${missing[*]}"
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    # Without them, the tests that need an adapter say that they are skipped.
    { $sudo apt-get update -q && $sudo apt-get install -y -q --no-install-recommends "${missing[@]}"; } || true
  fi
fi
if ls /usr/share/vulkan/icd.d/*.json >/dev/null 2>&1 && ldconfig -p | grep -q libvulkan.so.1; then
  # Where there are drivers, no test of kernels may skip.
  export GRADLOOM_NEEDS_ADAPTER=1
fi
command -v cargo >/dev/null || { echo "the Rust toolchain is needed: https://rustup.rs" >&2; exit 1; }
for part in fmt clippy; do
  cargo "$part" --version >/dev/null 2>&1 || rustup component add "$([ "$part" = fmt ] && echo rustfmt || echo clippy)"
done

step "format"
cargo fmt --all --check
if long=$(git ls-files '*.rs' | LC_ALL=C.UTF-8 xargs grep -nP '^(?=.{111})\s*//'); then
  echo "comments of more than 110 columns: $long" >&2
  exit 1
fi
# A function's doc begins with a verb, a field's with a noun.
if questions=$(git ls-files '*.rs' | xargs grep -nE '^\s*//[/!] (What|How|Which|Where|Whose|Whether)\b'); then
  echo "doc comments begin with What, How, Which, Where, Whose or Whether: $questions" >&2
  exit 1
fi
step "lints"
cargo clippy --workspace --all-targets --quiet -- -D warnings
# What a user without a GPU's driver builds, and the least that a program can depend on.
for package in gradloom-cli gradloom; do
  cargo clippy --package "$package" --no-default-features --quiet -- -D warnings
done
step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
step "licences, bans and sources"
if ! cargo deny --version >/dev/null 2>&1; then
  echo "installing cargo-deny"
  # Not optimised: built in a fraction of the time, it still answers within seconds.
  env -u CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=false timeout 1200 cargo install cargo-deny --version 0.20.2 --locked --debug --quiet || true
fi
if cargo deny --version >/dev/null 2>&1; then
  cargo deny --locked check licenses bans sources
  step "advisories"
  # The database is a repository elsewhere; what an earlier run fetched will do. It has the folder only once
  # it is whole.
  databases="${CARGO_HOME:-$HOME/.cargo}/advisory-dbs"
  if timeout 60 cargo deny --locked fetch db >/dev/null 2>&1 || compgen -G "$databases/*/crates" >/dev/null; then
    cargo deny --locked --offline check advisories
  else
    echo "advisories: skipped, the database cannot be had"
  fi
elif [ -n "${GRADLOOM_NEEDS_DENY:-}" ]; then
  echo "cargo-deny could not be installed, and GRADLOOM_NEEDS_DENY asks for it" >&2
  exit 1
else
  echo "licences, bans, sources and advisories: skipped, cargo-deny could not be installed"
fi
# The tests that are skipped, which append their names.
GRADLOOM_SKIPPED="$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)/skipped"
rm -f "$GRADLOOM_SKIPPED"
export GRADLOOM_SKIPPED
step "examples in the documentation"
cargo test --workspace --doc --quiet
# The printed CUDA C goes through NVIDIA's compiler, which is a package for Python; no GPU is needed.
nvrtc="${CARGO_TARGET_DIR:-target}/nvrtc"
if [ "$(uname -sm)" = "Linux x86_64" ] && [ ! -e "$nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" ]; then
  step "installing NVIDIA's runtime compiler into $nvrtc"
  # Without it, the test that needs it says that it is skipped.
  timeout 300 python3 -m pip install --quiet --no-deps --target "$nvrtc" nvidia-cuda-nvrtc-cu12==12.9.86 || true
fi
if [ -e "$nvrtc/nvidia/cuda_nvrtc/lib/libnvrtc.so.12" ]; then
  GRADLOOM_NVRTC="$(cd "$nvrtc" && pwd)/nvidia/cuda_nvrtc/lib/libnvrtc.so.12"
  # Where it was installed, the test may not skip.
  export GRADLOOM_NVRTC GRADLOOM_NEEDS_NVRTC=1
fi
step "tests"
if cargo nextest --version >/dev/null 2>&1; then
  # Not the examples: clippy has compiled them.
  cargo nextest run --workspace --tests --no-fail-fast --status-level fail --final-status-level slow
else
  cargo test --workspace --all-targets --no-fail-fast
fi
if [ -e "$swiftshader" ]; then
  step "tests of kernels on SwiftShader"
  # By their names: what one workgroup shares is slow there.
  VK_ICD_FILENAMES="$swiftshader" VK_DRIVER_FILES="$swiftshader" \
    cargo test --workspace --test wgpu --test gpt_oracle -- table:: narrow:: random:: index:: nan:: worlds:: steps_that a_step what_is a_gpu
fi
step "the npm package"
bash scripts/test-web.sh
if [ -s "$GRADLOOM_SKIPPED" ]; then
  step "$(wc -l <"$GRADLOOM_SKIPPED") tests were skipped"
  sort "$GRADLOOM_SKIPPED"
fi
