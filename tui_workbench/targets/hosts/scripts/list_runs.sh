# $1: the folder of the workbench. Prints the name, size in KiB and record of each run, each followed by NUL.
cd -- "$1/runs" 2>/dev/null || exit 0
for run in *; do
    [ -d "$run" ] || continue
    printf '%s\0%s\0' "$run" "$(du -sk -- "$run" | cut -f1)"
    cat -- "$run/run.json" 2>/dev/null
    printf '\0'
done
