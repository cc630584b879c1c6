# Defines `look`, which lists the files of the folder `$base` by their paths, `is_unchanged`, which compares such a list
# in the file $1 with the list of the last sync, and `digest_held`, which prints the digest of the manifest.
. ./facts.sh
# shellcheck disable=SC2120  # other scripts pass arguments
by_path() { LC_ALL=C sort -z -t/ -k2 "$@"; }
# shellcheck disable=SC2119,SC2154  # the script that uses this file sets `base`
look() {
    find "./$base" -mindepth 1 \( -type d -printf "$tree_folder/%P\0" -o -printf "$tree_file/%P\0" \) 2>/dev/null |
        by_path 2>/dev/null || :
}
is_unchanged() { [ -s "$1" ] && cmp -s -- "$1" "$base.found"; }
digest_held() { sha256sum <"$base.manifest" | cut -d' ' -f1; }
