# $1: the folder, $2: the `digest` of the wanted files. Succeeds if `sync` would send and remove nothing.
tree=$1 wanted=$2 base=${1##*/}
. ./look.sh
cd -- "$tree/.." 2>/dev/null && [ -e "$base.found" ] && [ -e "$base.manifest" ] || exit 1
[ "$(digest_held)" = "$wanted" ] || exit 1
now=$base.now.$$
trap 'rm -f -- "$now"' EXIT
look >"$now" && is_unchanged "$now"
