# Takes the spare, and makes it equal to the tree. Every list is sorted. A hard link shows that the spare is on the same
# mount as the run, so that the rename moves no files. `stop` waits for a program that is still writing.
# shellcheck disable=SC2154  # place.sh sets `tree` and `new`
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
    # shellcheck disable=SC2016  # another shell expands it
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
