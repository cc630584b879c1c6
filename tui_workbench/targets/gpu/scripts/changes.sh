# Functions that print the marks of the run directory $run. The lines before this script assign $list_changes, the text
# of list_changes.sh, and its limits $most_files and $list_seconds.
#
# `log_mark` covers the output, the metrics and the logs of ranks; `file_mark` also covers the outputs and the working
# copy, and further folders in its arguments. Links to folders are followed, because scripts write checkpoints through
# them. A function prints nothing if the directory is missing, or if the files cannot be listed in $list_seconds.
#
# shellcheck disable=SC2154
log_mark() {
    (cd -- "$run" 2>/dev/null &&
        find output.log metrics.jsonl ranks spark -type f -exec stat -c '%n %s %z' {} + 2>/dev/null | cksum)
}
file_mark() {
    timeout -s KILL "$list_seconds" sh -c "$list_changes" sh "$most_files" "$run" "$@" 2>/dev/null
}
