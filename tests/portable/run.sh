#!/bin/sh
# Run tests without the features of Linux that other systems lack: run.sh PYTEST [ARGUMENTS ...]
#
# Only root can do this, in a mount namespace of its own. /proc and /dev/shm are empty and read-only there, the functions
# of Python that only Linux has are removed (sitecustomize.py), and the tools of toybox, which have fewer options than
# those of GNU, come first on the PATH. The tests, and the machines that they start, see the real /proc.
set -eu
missing=
[ "$(id -u)" = 0 ] || missing=" root"
for program in unshare nsenter ps pgrep toybox; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || { echo "The tests without the features of Linux need:$missing" >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/proc" "$place/bin"

# These programs of Linux need /proc, those of other systems do not: stand-ins call them outside the namespace.
for tool in ps pgrep; do
    cat >"$place/bin/$tool" <<END
#!/bin/sh
exec nsenter --mount=$place/proc/$$/ns/mnt $(command -v $tool) "\$@"
END
    chmod +x "$place/bin/$tool"
done
for tool in cat cp cut date df du env find grep head id ln ls mkdir mv readlink rm rmdir sed sleep sort stat tail tee touch \
    tr uname uniq wc xargs; do
    ln -s "$(command -v toybox)" "$place/bin/$tool"
done

export WORKBENCH_TEST_PROC="$place/proc" PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" PATH="$place/bin:$PATH"
unshare --mount --propagation private sh -c '
    mount -t proc proc "$1/proc" && mount -t tmpfs -o ro none /dev/shm && mount -t tmpfs -o ro none /proc || exit 1
    shift
    exec "$@"
' sh "$place" "$@"
