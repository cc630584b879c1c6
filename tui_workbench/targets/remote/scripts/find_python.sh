# $1: the value of pythonLocation. Debian has `python3` but no `python`. Prints two lines: path and version.
name=$1
# shellcheck disable=SC2088  # the user has written `~/`
case $name in
    "~/"*) name=$HOME/${name#"~/"} ;;
    /*) ;;
    */*) name=$HOME/$name ;;
    *) found=$(command -v -- "$name") || { [ "$name" = python ] && found=$(command -v python3); } || exit
       name=$found ;;
esac
[ -f "$name" ] && printf '%s\n' "$name" &&
    "$name" -I -S -c "import sys; print('%d.%d.%d' % sys.version_info[:3])" </dev/null 2>/dev/null
