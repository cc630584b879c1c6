# $1: the number of the first byte, from 1, $2: the file.
#
# While the file is unchanged, `tail` does not notice a lost connection. `cat` then reaches the end of its input, and
# the script kills `tail`.
exec 3<&0
{ until [ -f "$2" ]; do sleep 0.05; done; exec tail -c "+$1" -f -- "$2"; } </dev/null 3<&- 2>/dev/null &
follower=$!
{ cat <&3; kill "$follower"; } >/dev/null 2>&1 &
exec 3<&-
wait "$follower"
