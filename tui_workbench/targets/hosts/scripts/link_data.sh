# $1: the run's directory, then pairs of a link's name, or "" for no link, and a path. Prints the paths that cannot be
# read, and then creates no link and ends with 9. An earlier attempt may have created the links.
umask 077
mkdir -p -- "$1" && cd -- "$1" && shift || exit
code=0 rest=$#
while [ "$rest" -gt 0 ]; do
    [ -r "$2" ] || { printf '%s\0' "$2"; code=9; }
    set -- "$@" "$1" "$2"
    shift 2
    rest=$((rest - 2))
done
[ "$code" = 0 ] || exit "$code"
while [ $# -gt 0 ]; do
    if [ -n "$1" ]; then
        if [ ! -L "$1" ] && [ -e "$1" ]; then echo "$1 exists already" >&2; exit 1; fi
        ln -sfn -- "$2" "$1" || exit
    fi
    shift 2
done
