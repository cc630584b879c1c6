# $1: the run's directory, $2: the working directory, then the argument vector of the script. Sets the values of the
# pid file, and creates the log.
# shellcheck disable=SC2034  # for the scripts that use this file
run=$1 dir=$2
shift 2
boot=- stat=- mask=$(umask)
[ -r /proc/sys/kernel/random/boot_id ] && read -r boot </proc/sys/kernel/random/boot_id
[ -r /proc/$$/stat ] && read -r stat </proc/$$/stat || stat=$(LC_ALL=C ps -o lstart= -p $$ 2>/dev/null) || stat=-
umask 077
: >>"$run/output.log" || exit 1
