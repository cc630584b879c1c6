# $1: the folder of the workbench, $2: the run's directory, $3: the tree, $4: the folder of the SDK, $5: the digest of
# the wanted files, $6: the size of the input, which is run.json, $7: $4 of `place.sh`. Creates the run's directory with
# run.json. If the tree is up to date, and the run's copy of it could be made, prints the output of `place.sh`, and
# `placed`.
mask=$(umask)
umask 077
mkdir -p -- "$1/projects" "$2" || exit
chmod 700 -- "$1/projects" "$2" 2>/dev/null
cat >"$2/run.json.$$" && [ "$(wc -c <"$2/run.json.$$")" -eq "$6" ] || { rm -f -- "$2/run.json.$$"; exit 1; }
[ "$6" -gt 0 ] && mv -f -- "$2/run.json.$$" "$2/run.json" || rm -f -- "$2/run.json.$$"
[ -e "$2/placed" ] || (
    set -- "$3" "$5"
    . ./is_sent.sh
) || exit 0
umask "$mask"
(
    set -- "$3" "$2" "$4" "$7"
    . ./place.sh
) && echo placed
exit 0
