# $1: the folder, $2: the name of a file beside it, or nothing. With $2, only files and links that are newer than this
# file are copied, without bytecode. The change time is more reliable, if find supports it: programs can set the
# modification time, and copying does. The input is a line `SIZE COMPRESSOR`, then SIZE bytes: the names of the wanted
# files, each followed by a NUL byte. SIZE is `all` for all files. sha256sum escapes backslashes and line feeds in
# names. The line `other` shows that links or other things are copied too, which a second search then finds; the name of
# a file can only cause an unnecessary search.
export LC_ALL=C
echo ready
[ ! -L "$1" ] || { echo link; exit; }
cd -P -- "${1%/*}" 2>/dev/null && above=$(pwd -P) && cd -P -- "./${1##*/}" 2>/dev/null || { echo missing; exit; }
[ "$(pwd -P)" = "${above%/}/${1##*/}" ] || { echo link; exit; }
since=$2
if [ "$since" ]; then
    newer=-cnewer
    find . -maxdepth 0 -cnewer "../$since" >/dev/null 2>&1 || newer=-newer
    look() { find . -name __pycache__ -type d -prune -o ! -type d "$newer" "../$since" "$@"; }
else
    look() { find . "$@"; }
fi
# shellcheck disable=SC2016  # another shell expands it
refused=$(look \( -type f -o -type d \) -exec sh -c '
    for each; do [ -r "$each" ] && { [ -x "$each" ] || [ ! -d "$each" ]; } || printf "%s\n" "$each"; done
' sh {} + 2>/dev/null | head -n 1000)
sums=$(look \( -type f -exec sha256sum -- {} + -o ! -type f -exec sh -c 'echo other' sh {} + \) 2>/dev/null)
size() { { du -sk --apparent-size . || du -sk .; } 2>/dev/null | head -n 1 | cut -f1; }
printf '%s\n' "${#sums}" "$sums" "${#refused}" "$refused" "$([ "$since" ] && echo 0 || size)"
read -r size pack || exit 9
# shellcheck disable=SC2209  # the name of a command
command -v "${pack%% *}" >/dev/null || pack=cat
tar -cSf - -T /dev/null >/dev/null 2>&1 && holes=S || holes=
# shellcheck disable=SC2086  # the words of $pack are a command
if [ "$size" = all ] && [ -z "$since" ]; then tar -c${holes}f - . | $pack
else
    if [ "$size" = all ]; then look -print0
    else
        case $sums in *other*) look ! -type f -print0 ;; esac
        head -c "$size"
    fi | tar -c${holes}f - --no-recursion --null -T - | $pack
fi
