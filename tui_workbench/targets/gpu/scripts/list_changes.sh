# $1: maximum number of files to list in each folder, $2: run directory, further arguments: further folders. Prints the
# mark of the files.
#
# `head` ends `find` early. The times of folders show new files beyond the limits. `find -L` follows links; each folder
# has its own limit, so that none hides the others.
most=$1
cd -- "$2" || exit
shift 2
first() { find "$@" -print | head -n "$most"; }
first_in() {
    option=$1 folder=$2 depth=$3
    shift 3
    first "$option" "$folder" -maxdepth "$depth" \( -name __pycache__ -o -name node_modules -o -name .git \
        -o -name .venv -o -name .workbench \) -prune -o "$@"
}
{
    first output.log metrics.jsonl ranks spark -type f
    for root in outputs work "$@"; do
        echo "$root"
        first_in -H "$root" 8 \( -type f -o -type l \)
        for inner in "$root"/*/ "$root"/.[!.]*/; do
            [ -d "$inner" ] || continue
            first_in -H "$inner" 2 -type d
            first_in -L "$inner" 7 -type f
        done
    done
} | LC_ALL=C sort -u | tr '\n' '\0' | xargs -0 stat -L -c '%n %s %z' | cksum
