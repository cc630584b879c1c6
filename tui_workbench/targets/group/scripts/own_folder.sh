# $1: a folder, $2: the name of a member. Prints the name of the member that was there first: creating a link fails if
# the link exists, also on a network disk.
umask 077
mkdir -p -- "$1" && cd -- "$1" || exit
ln -sn -- "$2" member 2>/dev/null
readlink member
