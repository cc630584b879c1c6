# $1: the run's directory, then names of folders, an empty argument, and names of files.
umask 077
cd -- "$1" && shift || exit
while [ -n "$1" ]; do mkdir -p -- "$1" && shift || exit; done
shift
for name; do
    [ ! -L "$name" ] && : >>"$name" || exit
done
