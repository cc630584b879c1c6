# Functions that print the answers of `smi`. The first letter of each line that they print is its kind. `run_of_job`
# prints the run ID of a process that has no WORKBENCH_RUN_ID; a script can redefine it.
. ./smi.sh
# shellcheck disable=SC2034
form=--format=csv,noheader,nounits known=' ' seen=0
mark() { while IFS= read -r text; do printf '%s%s\n' "$1" "$text"; done; }
owner() {
    stat= name= user= rank=
    { read -r stat </proc/"$1"/stat; } 2>/dev/null || return 0
    { read -r name </proc/"$1"/comm; } 2>/dev/null
    run=$( { tr '\0' '\n' </proc/"$1"/environ | sed -n 's/^WORKBENCH_RUN_ID=//p' | head -n 1; } 2>/dev/null)
    [ -n "$run" ] || run=$(run_of_job "$1")
    rank=$( { tr '\0' '\n' </proc/"$1"/environ | sed -n 's/^RANK=//p' | head -n 1; } 2>/dev/null)
    box=$(grep -oE '[0-9a-f]{64}' /proc/"$1"/cgroup 2>/dev/null | head -n 1)
    user=$(stat -c %U /proc/"$1" 2>/dev/null)
    pid=$1
    # shellcheck disable=SC2086
    set -- ${stat##*)}
    printf 'o%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$pid" "$user" "$name" "$run" "$box" "$4" "$rank"
}
processes() {
    while IFS= read -r text; do
        pid=${text##*, }
        case $pid in '' | *[!0-9]*) printf 'e%s\n' "$text"; continue ;; esac
        # Ask again from time to time, because process IDs are reused.
        seen=$((seen + 1))
        [ $seen -gt 120 ] && seen=0 known=' '
        case $known in *" $pid "*) ;; *) owner "$pid"; known="$known$pid " ;; esac
        printf 'p%s\n' "$text"
    done
}
run_of_job() { :; }
describe() {
    if [ "$tool" = nvidia-smi ]; then
        printf 'c%s\n' "$(smi 2>/dev/null | sed -n 's/.*CUDA[A-Z ]*Version *: *\([0-9.]*\).*/\1/p' | head -n 1)"
        smi -L 2>/dev/null | mark l
    fi
    printf 'n%s\n' "$(readlink /proc/self/ns/pid)"
}
