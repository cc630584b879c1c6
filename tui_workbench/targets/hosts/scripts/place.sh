# $1: the tree, $2: the run's directory, $3: the folder of the SDK, $4: `spare` to use and keep a spare. Prints `absent`
# if the SDK is missing. A complete copy is kept, because another process may be starting the script in it. Each attempt
# makes a new copy and renames it to `work`, because an attempt whose connection was lost may still be copying. `placed`
# is written once: files newer than `placed` were made by the run.
[ -e "$3" ] || echo absent
[ -e "$2/placed" ] && exit 0
tree=$1 run=$2 new=$2/copy.$$
trap 'remove "$2/copy.$$" "$2/copy.$$".*' EXIT
. ./remove.sh
. ./copy_lists.sh
. ./take_spare.sh
copy_tree() (
    mkdir -- "$new" && cd -- "$new" || exit
    cp -a --reflink=auto -- "$tree" work 2>/dev/null || { rm -rf -- work; cp -a -- "$tree" work; } || exit
    [ "$1" ] && list_tree placed.tree && list_copy && is_equal || rm -f placed.tree
)
place() {
    mv -T -- "$new/work" "$run/work" 2>/dev/null || { [ ! -e "$run/work" ] && mv -- "$new/work" "$run/work"; } ||
        return
    [ ! -e "$new/placed.tree" ] || mv -- "$new/placed.tree" "$new/placed.copy" "$run"
}
[ -e "$run/work" ] || {
    # The spare may have files that cannot be removed.
    { [ "$4" ] && take_spare 2>/dev/null; } || { new=$new.tree && remove "$new" && copy_tree "$4"; } || exit
    mkdir -p -- "$new/work/outputs" || exit
    [ -e "$run/placed" ] || place || [ -e "$run/work" ] || exit
}
umask 077
set -C
: 2>/dev/null >"$run/placed" || [ -e "$run/placed" ]
