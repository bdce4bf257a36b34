#!/bin/sh
# Writes the promptfoo results of the fixtures: `sh make_promptfoo.sh FOLDER PROMPTFOO`, where PROMPTFOO is its command.
# Only promptfoo's own echo provider answers, and nothing leaves the machine. The config is beside the results.
set -e
folder=$(cd "$1" && pwd)
export PROMPTFOO_DISABLE_TELEMETRY=1 PROMPTFOO_DISABLE_UPDATE=1 PROMPTFOO_DISABLE_REMOTE_GENERATION=true
export PROMPTFOO_DISABLE_SHARING=1 PROMPTFOO_SELF_HOSTED=1 PROMPTFOO_CACHE_ENABLED=false
work=$(mktemp -d)
export PROMPTFOO_CONFIG_DIR="$work/home"
cp "$folder/promptfooconfig.yaml" "$folder/more_tests.csv" "$work"
cd "$work"
# A failed test makes promptfoo exit with 100.
"$2" eval -c promptfooconfig.yaml -o results.json --no-progress-bar --no-table --max-concurrency 1 || test $? = 100
# Stack traces name folders of this machine.
sed -E 's/\\n(Stack Trace|    at )[^"]*//g' results.json > "$folder/promptfoo_results.json"
rm -r "$work"
