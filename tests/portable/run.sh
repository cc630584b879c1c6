#!/bin/sh
# Run tests without the features of Linux that other systems lack: run.sh PYTEST [ARGUMENTS ...]
#
# Only root can do this, in a mount namespace of its own. /proc and /dev/shm are empty and read-only there, the functions
# of Python that only Linux has are removed (sitecustomize.py), and small tools with fewer options than those of GNU come
# first on the PATH, if toybox is installed. The tests, and the machines that they start, see the real /proc.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/proc" "$place/bin"

# The `ps` of Linux needs /proc, that of other systems does not: a stand-in calls the real `ps` outside the namespace.
cat >"$place/bin/ps" <<END
#!/bin/sh
exec nsenter --mount=$place/proc/$$/ns/mnt $(command -v ps) "\$@"
END
chmod +x "$place/bin/ps"
for tool in cat cp cut date df du env find grep head id ln ls mkdir mv readlink rm rmdir sed sleep sort stat tail tee touch \
    tr uname uniq wc xargs; do
    ! command -v toybox >/dev/null || ln -s "$(command -v toybox)" "$place/bin/$tool"
done

export WORKBENCH_TEST_PROC="$place/proc" PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" PATH="$place/bin:$PATH"
unshare --mount --propagation private sh -c '
    mount -t proc proc "$1/proc" && mount -t tmpfs -o ro none /dev/shm && mount -t tmpfs -o ro none /proc || exit 1
    shift
    exec "$@"
' sh "$place" "$@"
