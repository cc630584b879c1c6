# Defines `left`, which prints the IDs of processes with the run's ID in their environment. Not every grep has -z.
#
# It can miss a process: Linux shows no environment during `exec`, usually for less than a millisecond.
if printf 'x\0' | grep -qz x 2>/dev/null; then
    # shellcheck disable=SC2154  # the script that uses this file sets `id`
    left() { grep -lszFx -- "WORKBENCH_RUN_ID=$id" /proc/[0-9]*/environ 2>/dev/null | cut -d/ -f3; }
else
    left() {
        for one in /proc/[0-9]*; do
            { tr '\0' '\n' <"$one/environ"; } 2>/dev/null | grep -qxF -- "WORKBENCH_RUN_ID=$id" || continue
            echo "${one#/proc/}"
        done
    }
fi
