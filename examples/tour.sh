# What the tours share: the look of a step, the check of its exit code, and a fresh folder for its runs, whose name is in $runs.
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else
  bold='' dim='' plain=''
fi

step() { # a sentence on what comes next
  printf '\n%s%s%s\n' "$bold" "$1" "$plain"
}

call() { # the exit code that is right, then the arguments of assay
  expected=$1
  shift
  printf '%s$ assay %s%s\n' "$dim" "$*" "$plain"
  "$ASSAY" "$@"
  check_code $?
}

call_silently() { # the same without the report, for runs that are looked at later
  expected=$1
  shift
  printf '%s$ assay %s > /dev/null%s\n' "$dim" "$*" "$plain"
  "$ASSAY" "$@" > /dev/null
  check_code $?
}

check_code() {
  printf '%sexit code %s%s\n' "$dim" "$1" "$plain"
  if [ "$1" -ne "$expected" ]; then
    printf 'the tour ends here: the exit code should have been %s\n' "$expected" >&2
    exit 2
  fi
}

fresh_folder() { # the first free number below the folder
  number=1
  while [ -e "$1/$number" ]; do number=$((number + 1)); done
  mkdir -p "$1/$number" || exit 2
  runs="$1/$number"
}

fresh_folder "${DEMO_RUNS:-demo-runs}"
