# What the tours share: a fresh folder for the runs, the look of a step, and the check of its exit code.

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
  bold=$(printf '\033[1m') dim=$(printf '\033[2m') plain=$(printf '\033[0m')
else
  bold='' dim='' plain=''
fi

fresh_folder() { # the first free number below the folder
  number=1
  while [ -e "$1/$number" ]; do number=$((number + 1)); done
  mkdir -p "$1/$number" || exit 2
  runs="$1/$number"
}

step() { # a sentence on what comes next
  printf '\n%s%s%s\n' "$bold" "$(printf '%s\n' "$1" | fold -s -w 80)" "$plain"
}

call() { # the exit codes that are right, then the arguments of assay
  expected=$1
  shift
  say "assay $*"
  "$ASSAY" "$@"
  check_code $?
}

call_silently() { # the same without the report, for runs that are looked at later
  expected=$1
  shift
  say "assay $* > /dev/null"
  "$ASSAY" "$@" > /dev/null
  check_code $?
}

say() { # a command as one could type it; a long one goes on in the next line, but not within an option
  printf '%s' "$dim"
  printf '$ %s\n' "$1" | sed -e 's/\(--[a-z-]*\) \([^ >-]\)/\1~\2/g' -e 's/ > / >~/' | fold -s -w 74 | sed -e '$!s/$/\\/' -e '2,$s/^/    /' | tr '~' ' '
  printf '%s' "$plain"
}

check_code() {
  if [ "$1" -ne 0 ]; then printf '%sexit code %s%s\n' "$dim" "$1" "$plain"; fi
  case " $expected " in
  *" $1 "*) ;;
  *)
    printf 'The tour ends here: the exit code should have been %s.\n' "$expected" >&2
    exit 2
    ;;
  esac
}

fresh_folder "${DEMO_RUNS:-demo-runs}"
export ASSAY_RUNS_DIR="$runs"
say "export ASSAY_RUNS_DIR=$runs"
