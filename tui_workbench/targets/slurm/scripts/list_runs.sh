# Defines `list` and `finish`.
#
# `list` prints `= RUN JOB CODE ATTEMPT` for each run ID, `+ NUMBER START NODE CODE` for each folder in `attempts`, then
# the sizes, and `@ TIME PATH` for each file whose time shows a start or an end. `none` stands for a missing file, `-`
# for an empty one. The exit code is read before the sizes, so the sizes in a listing with an exit code are final.
# `finish` prints the present time, by the clock of the file system, and the end of the listing.
text_of() { if [ -f "$1" ]; then text=; read -r text <"$1"; text=${text:--}; else text=none; fi; }
list() {
    timed=
    for id; do
        text_of "runs/$id/pid"
        job=$text
        text_of "runs/$id/exit"
        code=$text
        text_of "runs/$id/attempt"
        printf '= %s %s %s %s\n' "$id" "$job" "$code" "$text"
        for attempt in "runs/$id/attempts"/*; do
            [ -s "$attempt/begin" ] || continue
            text_of "$attempt/begin"
            begin=$text
            text_of "$attempt/exit"
            printf '+ %s %s %s\n' "${attempt##*/}" "$begin" "$text"
            timed="$timed $attempt/begin $attempt/exit"
        done
        shift
        [ "$job" = none ] || timed="$timed runs/$id/pid runs/$id/exit"
        for file in "runs/$id/output.log" "runs/$id/slurm.log"; do
            [ ! -f "$file" ] || [ -L "$file" ] || set -- "$@" "$file"
        done
    done
    [ $# -eq 0 ] || wc -c "$@"
    set -f
    # shellcheck disable=SC2086  # several paths
    [ -z "$timed" ] || LC_ALL=C stat -c '@ %.9Y %n' $timed
    set +f
}
finish() {
    if now=$(mktemp clock.XXXXXX); then
        LC_ALL=C stat -c '# %.9Y' "$now"
        rm -f -- "$now"
    else date '+# %s.%N'; fi 2>/dev/null
    echo .
}
