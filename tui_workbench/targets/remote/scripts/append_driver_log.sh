# $1: run directory, $2: application, $3: bytes. YARN collects the log some seconds after the end of the application.
# Until then `yarn logs` prints nothing, but may exit with 0. `-am 1` means the only attempt; `-am ALL` prints a notice.
# The log is complete before it is appended. A request that is killed while it appends is continued by the next one:
# `driver.start` contains the size of output.log before the first byte. The lock makes a second request wait for the
# first, which continues if its connection is lost.
id=$2 most=$3
cd -- "$1" || exit
umask 077
exec 9>>driver.lock
flock -w 300 9 2>/dev/null || [ $? -ne 1 ] || { echo 'another request fetches the log' >&2; exit 1; }
[ ! -e driver ] || exit 0
trap 'rm -f driver.new driver.err' EXIT
[ -s driver.log ] || {
    for pause in 1 2 4 8 0; do
        yarn logs -applicationId "$id" -am 1 -log_files stdout,stderr >driver.new 2>driver.err &&
            [ -s driver.new ] && break
        sleep "$pause"
    done
    size=$(wc -c <driver.new) part=
    [ "$size" -le "$most" ] || part=", its last $most bytes"
    if [ "$size" -gt 0 ]; then title="The log of the driver, fetched at the end of $id$part:"
    else title="YARN has no log of the driver of $id: $(tail -n 1 driver.err | head -c 300)"; fi
    { printf '\n======== %s\n' "$title" && tail -c "$most" driver.new; } >driver.part || exit
    mv driver.part driver.log || exit
}
: >>output.log
[ -s driver.start ] || { wc -c <output.log >driver.size && mv driver.size driver.start; } || exit
added=$(($(wc -c <output.log) - $(cat driver.start)))
tail -c "+$((added + 1))" driver.log >>output.log && : >driver && rm -f driver.log driver.start
