#!/bin/sh
# A short tour of `assay validate` over the files in this folder. Started by `make demo`.
# Broken files are part of the tour: their exit code is shown, and the demo itself ends with 0.
ASSAY="${ASSAY:-assay}"
cd "$(dirname "$0")/.." || exit 2

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m'); else bold='' dim='' plain=''; fi

show() { # one sentence on what you are about to see, then the arguments of assay
  printf '\n%s%s%s\n%s$ assay %s%s\n' "$bold" "$1" "$plain" "$dim" "$2" "$plain"
  # shellcheck disable=SC2086  # the arguments are words of this script, not of a user
  "$ASSAY" $2
  code=$?
  printf '%sexit code %s%s\n' "$dim" "$code" "$plain"
  if [ "$code" -gt 1 ]; then exit "$code"; fi
}

show '1. Good files of all four contracts: recognised by content, nothing to say.' \
  'validate examples/legal_eval_v1/contract-law.jsonl examples/batch_v1/support-answers.json examples/golden_v1/assistant.json examples/conversation_v1/travel-agent.yaml'
show '2. JSONL with typical mistakes: every problem of every row in one pass; the good rows stay usable.' \
  'validate --max-issues 4 examples/legal_eval_v1/broken.jsonl'
show '3. A syntax error: the place, the cause, the cure.' \
  'validate examples/batch_v1/broken-syntax.json'
show '4. YAML as people write it: "no" is a text, and line numbers are true.' \
  'validate --max-issues 3 examples/conversation_v1/broken.yaml'
show '5. The same command for a pipeline: one annotation per issue, and an exit code.' \
  'validate --format github --max-issues 2 examples/golden_v1/broken.json'

printf '\n%sNext:%s %s validate YOUR-FILE   or   docs/tutorial/first-validation.md\n' "$bold" "$plain" "$ASSAY"
