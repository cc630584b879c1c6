# $1: run directory, further arguments: further folders. Prints the mark of the files. The lines before this script are
# those of changes.sh.
run=$1
shift
. ./changes.sh
file_mark "$@" || :
