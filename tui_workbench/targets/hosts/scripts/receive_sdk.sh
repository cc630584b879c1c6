# $1: the folder of this version of the SDK. The input is the archive.
umask 022
if [ ! -e "$1" ]; then
    mkdir -p -- "$1.$$" && tar -xf - -C "$1.$$" || exit
    [ -e "$1" ] || mv -- "$1.$$" "$1"
fi
cat >/dev/null
