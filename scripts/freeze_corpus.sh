#!/usr/bin/env bash
# Makes the text that ships inside the gradloom command: the project's own prose and code, in a fixed order.
# Run it by hand when the text should change; the result is committed, so that a given version always trains
# on the same bytes.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"
out=crates/gradloom-command/assets/corpus.txt

# Prose first, then the code that is closest to the models, so that the text stays a size that a command may
# carry while the project grows. The C locale sorts alike everywhere. Tests repeat themselves, and are left
# out.
list() {
  git ls-files -z -- "$@" ':!:**/tests/**' ':!:tests/**' ':!:**/*tests.rs' | LC_ALL=C sort -z
}

{ list '*.md'; list crates/gradloom/src crates/gradloom-{core,models}/src examples; } |
  while IFS= read -r -d '' file; do
    printf -- '==> %s <==\n\n' "$file"
    # A file's tests come last. Trailing blanks and runs of empty lines teach nothing.
    sed -e '/^#\[cfg(test)\]$/,$d' -e 's/[[:space:]]*$//' "$file" | cat -s
    printf '\n'
  done > "$out.partial"

bytes=$(wc -c < "$out.partial")
if [ "$bytes" -lt 400000 ] || [ "$bytes" -gt 600000 ]; then
  echo "the corpus has $bytes bytes; 400000 to 600000 are wanted" >&2
  exit 1
fi
# What is particular to the machine that it was made on stays out of it: no model should learn it.
if grep -nE '(^|[^A-Za-z0-9_.])/(work|tmp|root|home|Users)/' "$out.partial" >&2; then
  echo "the corpus has paths of a machine in it" >&2
  exit 1
fi
mv "$out.partial" "$out"
echo "$out: $bytes bytes"
