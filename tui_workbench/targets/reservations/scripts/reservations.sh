# $1 the folder, $2 `shared` or "", $3 the directory of this run or "", $4 the expected checksum of the entries or "",
# $5 the maximum number of entries, then the changes: `-NAME` removes an entry of this user, `+TEXT` adds one. The exit
# codes are in `folder.py`. Prints the time, the time of the boot, the user ID and the checksum, then a line for each
# entry: its name (`-` if the workbench did not make it), owner, time of creation, state, text, a tab, and the name of
# the owner, which may contain spaces.
folder=$1 shared=$2 run=$3 expected=$4 most=$5
shift 5
LC_ALL=C
export LC_ALL
umask 077
me=$(id -u)
if [ "$shared" ]; then
    [ -d "$folder" ] || exit 70
    # shellcheck disable=SC3065  # dash and busybox have -k too
    [ -k "$folder" ] || exit 71
    [ -r "$folder" ] && [ -w "$folder" ] && [ -x "$folder" ] || exit 72
else
    [ $# = 0 ] || mkdir -p -- "$folder" || exit
fi
list() {
    number=0
    for link in "$folder"/*; do [ ! -L "$link" ] || number=$((number + 1)); done
    [ "$number" -le "$most" ] || exit 74
    for link in "$folder"/*; do
        [ -L "$link" ] || continue
        text=$(readlink "$link") || continue
        facts=$(stat -c '%u %Z %U' "$link" 2>/dev/null || stat -f '%u %c %Su' "$link") || continue
        user=${facts#* * }
        name=${link##*/} state=- directory=
        case $name in *[!0-9a-f-]*) name=- ;; esac
        [ "${facts%% *}" != "$me" ] || case $text in
            "run "*) directory=${text#run * } ;;
            "wait "*) directory=${text#wait * * } ;;
        esac
        if [ -n "$directory" ]; then
            if [ "$directory" = "$run" ]; then state=this
            elif [ ! -d "$directory" ]; then state=over
            elif [ -f "$directory/exit" ] && grep -q '[0-9]' "$directory/exit"; then state=over
            fi
        fi
        case $text in *[!\ -~]*) text=$(printf '%s' "$text" | tr -cd ' -~') ;; esac
        printf '%s %s %s %s\t%s\n' "$name" "${facts%" $user"}" "$state" "$text" "$user"
    done
}
if [ $# -gt 0 ]; then
    exec 9<"$folder" || exit
    command -v flock >/dev/null 2>&1 && { flock -w 60 9 || exit 73; }
fi
listing=$(list) || exit
stamp=$(printf '%s' "$listing" | cksum | tr ' ' -)
[ -z "$expected" ] || [ "$expected" = "$stamp" ] || exit 75
boot=$(sed -n 's/^btime //p' /proc/stat 2>/dev/null)
printf '%s %s %s %s\n%s\n' "$(date +%s)" "${boot:-0}" "$me" "$stamp" "$listing"
[ $# = 0 ] || token=$(od -An -tx1 -N8 /dev/urandom | tr -d ' ') || exit
number=0
for change in "$@"; do
    case $change in
        -*) rm -f -- "$folder/${change#-}" || exit ;;
        *) number=$((number + 1)) && ln -sn -- "${change#+}" "$folder/$token-$number" || exit ;;
    esac
done
