# $1: a folder, $2: a new name. A folder that does not exist would be created in its nearest parent that exists. Prints
# the folder that was tried. The new folder has a random name and only this user may enter it, and `set -C` opens no
# file that exists, so no link is followed.
LC_ALL=C; export LC_ALL; umask 077; set -C
folder=$1
while [ ! -e "$folder" ] && [ ! -L "$folder" ] && [ "$folder" != / ]; do folder=$(dirname -- "$folder"); done
printf '%s\n' "$folder"
mkdir -- "$folder/$2" || exit
file=$folder/$2/file
trap 'rm -f -- "$file"; rmdir -- "$folder/$2"' EXIT
head -c 65536 /dev/zero >"$file" || exit
# Some file systems find out only now that the disk or the quota is full. Not every dd can wait for that.
said=$(dd if=/dev/null of="$file" conv=notrunc,fsync 2>&1) || case $said in
    *"No space left"* | *"uota exceeded"*) printf '%s\n' "$said" | head -n 1 >&2; exit 1 ;;
esac
