# Makes a second request for the run in the current folder wait for the first, which continues if its connection is
# lost. If flock fails with a code other than 1, the file system has no locks, and none is held.
exec 9>>submit.lock
flock -w 120 9 2>/dev/null || [ $? -ne 1 ] || {
    echo 'another request is submitting this run' >&2
    exit 74
}
