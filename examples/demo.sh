#!/bin/sh
# A tour of assay over the files in this folder: validate, run, judge, gate, look inside, verify. Started by `make demo`.
# It needs no key and no network: recorded replies answer (recordings/README.md).
# Broken files and a missed gate are part of the tour: each step has the exit code that it should have, and the demo ends with 0.
ASSAY="${ASSAY:-assay}"
cd "$(dirname "$0")/.." || exit 2
. examples/tour.sh

recording='replay/examples/recordings/demo.jsonl'

step '1. Good files of all four contracts: recognised by content, nothing to say.'
call 0 validate examples/golden_v1/assistant.json examples/batch_v1/support-answers.json examples/legal_eval_v1/contract-law.jsonl \
  examples/conversation_v1/travel-agent.yaml

step '2. A broken one: the place, the cause, the cure.'
call 1 validate examples/batch_v1/broken-syntax.json

step '3. Two candidates answer the golden prompts, a judge grades them: one reaches the gates, the other does not.'
call 1 run examples/runs/two-candidates.yaml --run-id golden --quiet --runs-dir "$runs"

step '4. A batch with a pass rate that is good enough. But the judge refused one record, and an error is no score: the gate says so.'
call 1 run examples/batch_v1/support-answers.json --model "$recording" --judge "$recording" --run-id batch --pass-rate 0.75 \
  --max-error-rate 0 --quiet --runs-dir "$runs"
call 0 show batch account-001 --runs-dir "$runs"

step '5. Legal questions (by rubric, by reference, multiple choice) and a recorded conversation go the same way. All runs so far:'
call_silently 0 run examples/legal_eval_v1/contract-law.jsonl --model "$recording" --judge "$recording" --run-id legal --quiet \
  --runs-dir "$runs"
call_silently 0 run examples/conversation_v1/travel-agent.yaml --judge "$recording" --run-id conversation --quiet --runs-dir "$runs"
call 0 runs --runs-dir "$runs"

step '6. Every run leaves its whole evidence in a folder, written once, under hashes.'
call 0 verify legal --runs-dir "$runs"
ls "$runs/legal"

step 'Next'
cat <<NEXT
  . .venv/bin/activate                                           puts assay on your path
  assay show legal --runs-dir $runs                       what came out, with intervals
  assay show legal clb:rubric:oral-change --runs-dir $runs   why an almost perfect answer failed
  assay show golden-hasty tone-apology --runs-dir $runs   an answer that talks to the judge
  make demo-local                                                the same with a real model on this machine
  assay run YOUR-FILE --model openai/gpt-5-mini --judge openai/gpt-5 --dry-run
  docs/tutorial/first-run.md · docs/reference/run-file.md · examples/recordings/README.md
NEXT
