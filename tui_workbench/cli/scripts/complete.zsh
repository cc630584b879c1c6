# $1: a kind of values, then options of compadd. Adds the values as completions of the current word.
_workbench_tui_values() {
  local kind=$1 project=. place
  local -a found
  shift
  place=${words[(I)--project]}
  (( place )) && project=${~words[place + 1]}
  found=("${(@f)$(workbench-tui completion --values $kind --project "$project" 2>/dev/null)}")
  compadd "$@" -- $found
}
