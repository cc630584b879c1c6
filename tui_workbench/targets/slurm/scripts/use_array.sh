# Defines `use_array`, which submits the run as a task of the array of its sweep. The variables and functions are those
# of submit.sh. The file of an array task contains the path of the run's directory. `job` in the folder of an array
# contains `refused` if Slurm refused the array. $said is the output of the last Slurm command.
#
# shellcheck disable=SC2154
ask() {
    said=$("$@" 2>"said.$$") && return
    grep -qE "$transient" "said.$$" || return 1
    cat "said.$$" >&2
    exit 75
}
find_array() {
    ask squeue -h -t PENDING -u "$(id -un)" -n "$sweep" -o %F || return
    id=$(printf '%s\n' "$said" | head -n 1)
    [ -z "$id" ] || return 0
    ask squeue -h -t PENDING -u "$(id -un)" -o '%F|%Z' || return
    id=$(printf '%s\n' "$said" | in_folder "$array")
}
use_array() {
    mkdir -p -- "$array" || return 0
    exec 8>>"$array/lock"
    flock -w 120 8 2>/dev/null || [ $? -ne 1 ] || {
        echo 'another request is submitting the sweep' >&2
        exit 74
    }
    # The last other run of the sweep may just have ended.
    [ -e "$array/lock" ] || return 0
    id=$(head -n 1 "$array/job" 2>/dev/null)
    if [ -z "$id" ] && [ -e "$array/attempted" ]; then
        find_array || { [ ! -e "$array/accepted" ] || doubt; return 0; }
    fi
    if [ -z "$id" ] && [ ! -e "$array/accepted" ]; then
        : >>"$array/attempted" && printf '%s\n' "$script" >"task.$$" || exit
        if ask enqueue "$@" --hold "--array=$tasks" "--job-name=$sweep" "--output=/dev/null" "--chdir=$array" <"task.$$"
        then
            : >>"$array/accepted"
            id=$(id_in "$said")
            [ -n "$id" ] || find_array || doubt
        else id=refused; fi
    fi
    [ -n "$id" ] || doubt
    printf '%s\n' "$id" >"$array/job" || exit
    [ "$id" != refused ] || return 0
    mv -f "batch.$$" batch && printf '%s\n' "$run" >"$array/$number" || exit
    task=${id}_$number
    ask scontrol update "JobId=$task" "JobName=$name" "StdOut=$log" && ask squeue -h -j "$task" -o %A && id=$said &&
        ask scontrol release "$task" && keep "$id" "$task"
    scancel "$task" 2>/dev/null
    rm -f "$array/$number" && mv -f batch "batch.$$" || exit
}
