#!/usr/bin/env bash
# Makes the text that ships inside the gradloom command: the project's own prose and code, in a fixed order.
# Run it by hand when the text should change; the result is committed, so that a given version always trains on the same bytes.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
out=crates/gradloom-cli/assets/corpus.txt

# Prose first, then code; the C locale sorts alike everywhere. Locks and data are no text of ours, tests repeat themselves,
# and the corpus must not hold itself.
list() {
  git ls-files -z -- "$@" ':!:*Cargo.lock' ':!:**/tests/**' ':!:tests/**' ':!:**/*tests.rs' ':!:**/data/*.json' ':!:**/assets/**' |
    LC_ALL=C sort -z
}

{ list '*.md'; list '*.rs'; list '*.toml' '*.sh' '*.py'; } |
  while IFS= read -r -d '' file; do
    printf -- '==> %s <==\n\n' "$file"
    # Trailing blanks and runs of empty lines teach nothing.
    sed -e 's/[[:space:]]*$//' "$file" | cat -s
    printf '\n'
  done > "$out.partial"

bytes=$(wc -c < "$out.partial")
if [ "$bytes" -lt 300000 ]; then
  echo "the corpus has only $bytes bytes; 300000 are wanted" >&2
  exit 1
fi
mv "$out.partial" "$out"
echo "$out: $bytes bytes"
