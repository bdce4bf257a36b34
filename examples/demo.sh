#!/bin/sh
# A tour of assay over the files in this folder: validate, run, judge, gate, look inside, verify. Started by `make demo`.
# It needs no key and no network: recorded replies answer (recordings/README.md).
# Broken files and missed gates are part of the tour: each step knows the exit code it should have, and the demo ends with 0.
ASSAY="${ASSAY:-assay}"
cd "$(dirname "$0")/.." || exit 2
. examples/tour.sh

recording=replay/examples/recordings/demo.jsonl

step '1. Good files of all four contracts: recognised by content, nothing to say.'
call 0 validate examples/golden_v1/assistant.json examples/batch_v1/support-answers.json examples/legal_eval_v1/contract-law.jsonl \
  examples/conversation_v1/travel-agent.yaml

step '2. A broken one: the place, the cause, the cure.'
call 1 validate examples/batch_v1/broken-syntax.json

step '3. Two candidates answer the golden prompts, and a judge grades them. One meets the gates, the other misses them.'
call 1 run examples/runs/two-candidates.yaml --run-id golden --quiet

step '4. Is the difference real? The same records side by side, with what so few of them can tell.'
call 0 compare golden-hasty golden-careful --flips 1
call 0 charts golden-careful golden-hasty -o "$runs-charts"

step '5. A batch whose pass rate is good enough. But the judge refused one record; an error is no score, and the gate does not forget it.'
call 1 run examples/batch_v1/support-answers.json --model "$recording" --judge "$recording" --run-id batch --pass-rate 0.75 \
  --max-error-rate 0 --quiet
call 0 show batch account-001

step '6. Legal questions (by rubric, by reference, multiple choice) and a recorded conversation go the same way. All runs so far:'
call_silently 0 run examples/legal_eval_v1/contract-law.jsonl --model "$recording" --judge "$recording" --run-id legal --quiet
call_silently 0 run examples/conversation_v1/travel-agent.yaml --judge "$recording" --run-id conversation --quiet
call 0 runs

step '7. Every run leaves its whole evidence in a folder, written once, under hashes.'
call 0 verify legal
say "ls $runs/legal"
printf '%s\n' "$(ls "$runs/legal" | tr '\n' ' ' | fold -s -w 80)"

step '8. And something to look at: one file that opens in any browser, without a network.'
call 0 report golden-hasty -o "$runs-report.html"

step 'Next'
cat <<NEXT
  . .venv/bin/activate; export ASSAY_RUNS_DIR=$runs
  open $runs-report.html in a browser: the run, its records, every vote
  assay serve                                  the same of all runs
  assay show legal                             what came out, with intervals
  assay show legal clb:rubric:oral-change      why this answer did not pass
  assay show golden-hasty tone-apology         an answer that talks to the judge
  assay gate golden-careful --baseline golden-hasty --mode superiority
                                               a verdict for a pipeline
  assay probe --judge scripted/judge-gullible  is this judge sound? (it is not)
  assay run FILE --model openai/gpt-6-luna --judge openai/gpt-6-sol --dry-run
  make demo-local                              a real model here, without a key
  Read on: docs/tutorial/first-run.md, docs/reference/run-file.md
  Where the replies come from: examples/recordings/README.md
NEXT
