"""The `sh` scripts that make, collect and remove a run's copy of the project on another machine.

Making and removing a copy of many files takes long. The copy of an ended run is therefore kept as the *spare*, beside
the last sent files of the project (the *tree*). The next run takes it by a rename, and replaces only what differs from
the tree. A copy has two lists, made when it was complete and equal to the tree: `placed.copy` of its own files, and
`placed.tree` of those of the tree. A file of the spare is reused if neither it nor the file in the tree has changed
since; the change time and the inode are compared. Everything else is replaced, also folders in which the run created or
removed something, because a run may have given them other attributes. The result is listed again and compared with the
tree. After any doubt or error, the run gets a new copy of the tree.
"""

from __future__ import annotations

SPARE_FILES = 2_000
"""Minimum number of files of a copy that is kept. A smaller copy is created and removed quickly."""

LIST_TREE = r"""-type d -printf '%y %C@|%y %m/%P\0' -o -printf '%y %C@|%y %m %s %T@/%P\0'"""
"""What `find` prints about each file and folder of the tree. No other "/" precedes the path.

The facts after the first "|" are those that a copy has too.
"""

_LIST_COPY = r"""-type d -printf '%y %C@ %i %n %T@|%y %m/%P\0' -o -printf '%y %C@ %i %n|%y %m %s %T@/%P\0'"""

# For files that are given as `work/PATH`.
_LIST_NAMED = _LIST_COPY.replace("/%P", "%p")

# Defines functions that are called in a folder with a copy of the tree. GNU find and lists separated by NUL are needed;
# other machines have no spares.
_LISTS = rf"""
list_copy() {{ find work -mindepth 1 \( {_LIST_COPY} \) >list && LC_ALL=C sort -z list >placed.copy; }}
list_named() {{ xargs -0 sh -c "find \"\$@\" -maxdepth $1 \( {_LIST_NAMED} \)" sh; }}
list_tree() {{
    [ -s "$tree.found" ] && [ "$(grep -zcv '^d' "$tree.found")" -eq "$(tr -dc '\0' <"$tree.manifest" | wc -c)" ] &&
        LC_ALL=C sort -z -- "$tree.found" >"$1"
}}
common_facts() {{ cut -z -d'|' -f2- -- "$1" | LC_ALL=C sort -z; }}
is_equal() {{
    common_facts placed.tree >wanted & common_facts placed.copy >list && wait "$!" && [ -s list ] && cmp -s list wanted
}}
"""

# Defines `remove`. The run may have made folders that even their owner cannot read. `find` follows no links.
_REMOVE = """\
remove() {
    rm -rf -- "$@" 2>/dev/null && return
    find "$@" -type d ! -perm -700 -exec chmod u+rwx {} \\; 2>/dev/null
    rm -rf -- "$@"
}
"""

# Takes the spare, and makes it equal to the tree. Every list is sorted. A hard link shows that the spare is on the same
# mount as the run, so that the rename moves no files. `stop` waits for a program that is still writing.
_TAKE_SPARE = r"""
take_spare() (
    spare=${tree%/*}/spare LC_ALL=C
    export LC_ALL
    umask 022
    [ ! -L "$spare" ] && ln -- "$spare/placed.tree" "$new.link" && mv -T -- "$spare" "$new" || exit
    [ ! -L "$new" ] && cd -P -- "$new" && [ ! -L work ] || exit
    stop() { wait; exit 1; }
    only() { comm -z -23 -- "$1" "$2"; }
    both() { comm -z -12 -- "$1" "$2"; }
    paths() { sed -z -n "s,^$1[^/]*/,,p" -- "$2" >unsorted && sort -z unsorted; }
    [ -s placed.copy ] && mv -- placed.copy before || exit
    list_tree tree & list_copy && wait "$!" || stop
    # A record with a tab before it is new. The first letter of a record is `d` for a folder.
    comm -z -3 -- placed.tree tree >tree.changes & comm -z -3 -- before placed.copy >copy.changes && wait "$!" || stop
    paths '\t[^d]' copy.changes >changed && paths '[^\td]' copy.changes >lost || exit
    paths '\t[^d]' tree.changes >wanted && paths '[^\td]' tree.changes >outdated || exit
    paths d tree >folders && paths d placed.copy >own && paths '\td' copy.changes >touched || exit
    # A file that is not lost is still in the copy, so none of its folders was replaced by a link.
    { cat changed && only outdated lost && only own folders; } >superfluous || exit
    { cat wanted && only lost outdated; } >missing || exit
    both touched folders >renewed || exit
    (cd work && xargs -0 rm -rf -- <../superfluous) || exit
    sed -z 's,^,work/,' renewed >inner && printf 'work\0' >>inner && sort -zr inner >touched || exit
    xargs -0 <touched sh -c '
        for folder; do
            mkdir new && find "$folder" -mindepth 1 -maxdepth 1 -exec mv -t new -- {} + && rmdir -- "$folder" &&
                mv -T -- new "$folder" || exit
        done
    ' sh || exit
    [ ! -s missing ] || (
        cd -- "$tree" && xargs -0 cp -a --parents --remove-destination --reflink=auto -t "$new/work" -- <"$new/missing"
    ) || exit
    # List the copied and moved files and the changed folders again. The records of all other files stay.
    cat missing superfluous >made && sed -z -n ':next; s,/[^/]*$,,; T; p; b next' made >parents || exit
    sort -zu -o parents parents && both parents folders >made && cat missing >>made || exit
    sed -z 's,^,work/,' made >named && list_named 0 <named >listed && list_named 1 <touched >>listed || exit
    sed -z -n 's,work/,/,p' listed >all && sed -z 's,^,-/,' superfluous >>all && cat placed.copy >>all || exit
    # If a program in this pipe fails, the list is incomplete, and therefore not equal to that of the tree.
    sort -zsu -t/ -k2 -- all | sed -z '/^-/d' | sort -z >placed.copy || exit
    mv -- tree placed.tree && is_equal
)
"""

# $1: the tree, $2: the run's directory, $3: the folder of the SDK, $4: `spare` to use and keep a spare. Prints `absent`
# if the SDK is missing. A complete copy is kept, because another process may be starting the script in it. Each attempt
# makes a new copy and renames it to `work`, because an attempt whose connection was lost may still be copying. `placed`
# is written once: files newer than `placed` were made by the run.
PLACE = f"""\
[ -e "$3" ] || echo absent
[ -e "$2/placed" ] && exit 0
tree=$1 run=$2 new=$2/copy.$$
trap 'remove "$2/copy.$$" "$2/copy.$$".*' EXIT
{_REMOVE}{_LISTS}{_TAKE_SPARE}
copy_tree() (
    mkdir -- "$new" && cd -- "$new" || exit
    cp -a --reflink=auto -- "$tree" work 2>/dev/null || {{ rm -rf -- work; cp -a -- "$tree" work; }} || exit
    [ "$1" ] && list_tree placed.tree && list_copy && is_equal || rm -f placed.tree
)
place() {{
    mv -T -- "$new/work" "$run/work" 2>/dev/null || {{ [ ! -e "$run/work" ] && mv -- "$new/work" "$run/work"; }} ||
        return
    [ ! -e "$new/placed.tree" ] || mv -- "$new/placed.tree" "$new/placed.copy" "$run"
}}
[ -e "$run/work" ] || {{
    # The spare may have files that cannot be removed.
    {{ [ "$4" ] && take_spare 2>/dev/null; }} || {{ new=$new.tree && remove "$new" && copy_tree "$4"; }} || exit
    mkdir -p -- "$new/work/outputs" || exit
    [ -e "$run/placed" ] || place || [ -e "$run/work" ] || exit
}}
umask 077
set -C
: 2>/dev/null >"$run/placed" || [ -e "$run/placed" ]
"""

# $1: the run's directory. Moves `outputs` out of `work`. Other machines that follow the run may do the same at the same
# time.
COLLECT = """\
cd -- "$1" 2>/dev/null && [ -d work ] && [ -e placed ] || exit 0
if [ -d work/outputs ] && [ ! -L work ] && [ ! -L work/outputs ] && [ ! -e outputs ] && [ ! -L outputs ]; then
    mv work/outputs outputs 2>/dev/null || [ -d outputs ] || exit
fi
"""

# $1: the run's directory, $2: the tree, then names of links to data. Keeps the copy as the spare, if it has lists and
# there is no spare. Renames the copy first, so that other processes never see a part of it.
REMOVE_COPY = f"""\
{_REMOVE}cd -- "$1" 2>/dev/null || exit 0
tree=$2 spare=${{2%/*}}/spare
shift 2
for name; do [ ! -L "$name" ] || rm -f -- "$name" || exit; done
remove removed copy.* || exit
if [ -s placed.copy ] && [ -s placed.tree ] && [ -d work ] && [ ! -L work ] && [ ! -e "$spare" ]; then
    ln -- "$tree.found" copy.link && mkdir copy.spare && mv -- work placed.copy placed.tree copy.spare &&
        mv -T -- copy.spare "$spare"
fi 2>/dev/null
[ ! -e work ] || mv work removed || exit
remove removed copy.* placed.*
"""
