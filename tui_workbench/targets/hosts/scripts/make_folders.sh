# $1: the folder of the workbench, $2: the run's directory, then other folders. `chmod` fails for a folder of another
# user; this is not an error. $1 keeps its permissions, because the user may have created it.
umask 077
mkdir -p -- "$1/projects" "$2" || exit
chmod 700 -- "$1/projects" "$2" 2>/dev/null
umask 022
shift
mkdir -p -- "$@"
