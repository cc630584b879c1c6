# $1: the folder, $2: a word that no other attempt uses, $3: the digest of the wanted manifest. If $3 is empty, the
# input begins with the digest, so that the caller can list the wanted files meanwhile. Without `find -printf`,
# everything is sent again; without gzip, data is not compressed. Files are removed only if the list of them is
# complete. Temporary files have unique names, because an attempt whose connection was lost may still be running. They
# are removed before the last line, because the script may be ended after that. `edited` means that the folder is
# unchanged since the last sync, and has only files of the manifest, so that the lists are not needed, and that the
# manifest can be changed here. After an interrupted sync, the folder may have more files. If few files were sent and
# none was removed, only these files and their folders, which `touched` names, are listed again.
tree=$1 wanted=$3 base=${1##*/}
umask 022
mkdir -p -- "$tree" && cd -- "$tree/.." || exit
now=$base.now.$$ gone=$base.gone.$$ new=$base.manifest.$2 stale=$base.stale.$2 added=$base.added.$2 pack=cat
touched=$base.touched.$2 again=$base.again.$$
trap 'rm -f -- "$now" "$gone" "$new" "$stale" "$added" "$touched" "$again"' EXIT
command -v gzip >/dev/null && pack='gzip -1'
. ./look.sh
count() { tr -dc '\0' <"$1" | wc -c; }
echo ready
look >"$now" && touch -- "$base.manifest" "$base.found" || exit
held=$(digest_held) names=$(count "$base.manifest") files=$(grep -zcv '^d' "$now" 2>/dev/null) unchanged=
if is_unchanged "$now"; then unchanged=yes; fi
[ "$wanted" ] || read -r wanted || exit 9
if [ "$unchanged" ] && [ "$held" = "$wanted" ]; then rm -f -- "$now"; echo same; exit; fi
if [ "$unchanged" ] && [ "$names" -gt 0 ] && [ "$names" = "$files" ] && comm -z /dev/null /dev/null 2>/dev/null; then
    echo "edited ${pack%% *}"
    echo "$held"
    read -r unpack deletions || exit 9
    if [ "$unpack" = manifest ]; then
        wc -c <"$base.manifest"
        $pack <"$base.manifest"
        read -r unpack deletions || exit 9
    fi
else
    echo "differs ${pack%% *}"
    wc -c <"$base.manifest"; wc -c <"$base.found"; wc -c <"$now"
    cat -- "$base.manifest" "$base.found" "$now" | $pack
    read -r unpack deletions || exit 9
fi
if [ "$deletions" != 0 ]; then
    head -c "$deletions" >"$gone" && [ "$(wc -c <"$gone")" -eq "$deletions" ] || exit 9
    (cd -- "$base" && xargs -0 rm -rf -- <"../$gone") || exit
fi
[ -s "$now" ] || rm -rf -- "$base"
if [ "$unpack" = gzip ]; then unpack='gzip -dc'; fi
$unpack | tar -xf - || exit
if [ -e "$stale" ]; then
    LC_ALL=C comm -z -23 -- "$base.manifest" "$stale" | LC_ALL=C sort -z -m -- - "$added" >"$new" || exit
fi
# What `find` prints about files that are given as ./PATH. Then "./" is replaced with "/".
list_named() {
    xargs -0 sh -c "find \"\$@\" -maxdepth 0 \( -type d -printf '$tree_folder%p\0' -o -printf '$tree_file%p\0' \)" sh
}
update() {
    [ -s "$touched" ] && [ -s "$now" ] && [ "$deletions" = 0 ] &&
        (cd -- "$base" && list_named) <"$touched" >"$gone" &&
        sed -z 's,\./,/,' "$gone" >"$again" && [ "$(count "$again")" -eq "$(count "$touched")" ] &&
        by_path -o "$again" -- "$again" && by_path -msu -- "$again" "$now" >"$base.found"
}
mv -f -- "$new" "$base.manifest" && { update 2>/dev/null || look >"$base.found"; } || exit
# shellcheck disable=SC1010  # a word of the answer
rm -f -- "$now" "$gone" "$stale" "$added" "$touched" "$again" && echo done
