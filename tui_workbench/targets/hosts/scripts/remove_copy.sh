# $1: the run's directory, $2: the tree, then names of links to data. Keeps the copy as the spare, if it has lists and
# there is no spare. Renames the copy first, so that other processes never see a part of it.
. ./remove.sh
cd -- "$1" 2>/dev/null || exit 0
tree=$2 spare=${2%/*}/spare
shift 2
for name; do [ ! -L "$name" ] || rm -f -- "$name" || exit; done
remove removed copy.* || exit
if [ -s placed.copy ] && [ -s placed.tree ] && [ -d work ] && [ ! -L work ] && [ ! -e "$spare" ]; then
    ln -- "$tree.found" copy.link && mkdir copy.spare && mv -- work placed.copy placed.tree copy.spare &&
        mv -T -- copy.spare "$spare"
fi 2>/dev/null
[ ! -e work ] || mv work removed || exit
remove removed copy.* placed.*
