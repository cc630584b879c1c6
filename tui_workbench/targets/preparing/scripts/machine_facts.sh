# $1: a command that succeeds if the machine must be restarted.
. ./has_gpu.sh
sed 's/^/os-/' /etc/os-release 2>/dev/null
echo "user=$(id -un)"
[ "$(id -u)" != 0 ] || echo root=yes
! has_gpu || echo gpu=yes
! docker version >/dev/null 2>&1 || echo engine=yes
! sh -c "$1" >/dev/null 2>&1 || echo restart=yes
