# $1: the run's directory, then path, first byte (from 1) and count of each part.
cd -- "$1" || exit
shift
while [ $# -gt 2 ]; do
    [ -L "$1" ] || tail -c "+$2" -- "$1" | head -c "$3"
    shift 3
done
