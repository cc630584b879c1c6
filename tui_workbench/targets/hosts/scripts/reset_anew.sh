# $1: the run's directory, $2: the size of the copy of its log. The exit code is 9 if the log is missing or
# shorter. The files of the run were fetched, and are sent again.
cd -- "$1" 2>/dev/null && [ "$(cat output.log 2>/dev/null | wc -c)" -ge "$2" ] || exit 9
rm -rf -- pid exit boot placed placed.* work outputs copy.* removed
