# shellcheck shell=bash
# $1: a kind of values, $2: the beginning of a word. Prints the values that the word can become. `compgen -W` is not
# used, because it would execute commands in a name.
_workbench_tui_values() {
  local i project=. value program=workbench-tui
  # Run the program of the command line only if workbench-tui is not on the PATH.
  type -P workbench-tui >/dev/null || program=${COMP_WORDS[0]/#\~/$HOME}
  for ((i = 1; i < COMP_CWORD; i++)); do
    [ "${COMP_WORDS[i]}" = --project ] && project=${COMP_WORDS[i + 1]}
  done
  while IFS= read -r value; do
    [[ $value == "$2"* ]] && printf '%s\n' "$value"
  done < <("$program" completion --values "$1" --project "${project/#\~/$HOME}" 2>/dev/null)
}
