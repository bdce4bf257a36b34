#!/bin/sh
# The tour with a real model on this machine: smollm2 answers, a program grades. Started by `make demo-local`; needs no key.
ASSAY="${ASSAY:-assay}"
cd "$(dirname "$0")/.." || exit 2
. examples/tour.sh

step '1. A small model answers easy questions, and a program compares its choices with the right ones. It may well miss the gate.'
call '0 1' run examples/runs/local.yaml --run-id choices --pass-rate 0.5 --verbose

step '2. It answers three golden prompts. The judge is a stand-in that gives every answer a 3: read the answer, not the score.'
call_silently 1 run examples/runs/local.yaml examples/golden_v1/assistant.json --judge scripted/judge-3 --limit 3 --run-id answers
call 0 show answers leap-year

step '3. Answers are kept: another stand-in grades the same ones, and the model is not asked again. All runs so far:'
call_silently 0 run examples/golden_v1/assistant.json --responses "$runs/answers" --judge scripted/judge-5 --limit 3 --run-id again \
  --quiet
call 0 runs

step '4. All of it is evidence, written once, under hashes.'
call 0 verify choices
say "ls $runs/choices"
printf '%s\n' "$(ls "$runs/choices" | tr '\n' ' ' | fold -s -w 80)"

step 'Next'
cat <<NEXT
  . .venv/bin/activate; export ASSAY_RUNS_DIR=$runs
  assay show choices warm-up:court   what the model said, and the choice in it
  assay show answers refuse-mixing   what it says to a dangerous question
  assay run examples/golden_v1/assistant.json --model local/smollm2 \\
    --judge openai/gpt-6-sol             with a judge that can judge
NEXT
