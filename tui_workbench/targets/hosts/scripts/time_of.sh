# Defines `time_of FILE`, which prints the time of the last change of a file, and `clock FOLDER`, which prints the
# present time by the clock of the folder's file system.
time_of() { date -r "$1" +%s.%N 2>/dev/null; }
clock() {
    if now=$(mktemp "$1/clock.XXXXXX" 2>/dev/null); then
        time_of "$now" || date +%s.%N
        rm -f -- "$now"
    else date +%s.%N; fi
}
