# Defines functions that are called in a folder with a copy of the tree. GNU find and lists separated by NUL are needed;
# other machines have no spares.
. ./facts.sh
list_copy() {
    find work -mindepth 1 \( -type d -printf "$copy_folder/%P\0" -o -printf "$copy_file/%P\0" \) >list &&
        LC_ALL=C sort -z list >placed.copy
}
# Files are given as `work/PATH`.
list_named() {
    xargs -0 sh -c "find \"\$@\" -maxdepth $1 \( -type d -printf '$copy_folder%p\0' -o -printf '$copy_file%p\0' \)" sh
}
# shellcheck disable=SC2154  # the script that uses this file sets `tree`
list_tree() {
    [ -s "$tree.found" ] && [ "$(grep -zcv '^d' "$tree.found")" -eq "$(tr -dc '\0' <"$tree.manifest" | wc -c)" ] &&
        LC_ALL=C sort -z -- "$tree.found" >"$1"
}
common_facts() { cut -z -d'|' -f2- -- "$1" | LC_ALL=C sort -z; }
is_equal() {
    common_facts placed.tree >wanted & common_facts placed.copy >list && wait "$!" && [ -s list ] && cmp -s list wanted
}
