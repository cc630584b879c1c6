# A folder that does not exist, or that this user may not enter, is on the disk of its nearest accessible parent.
for folder in "$@"; do
    while ! df -Pk -- "$folder" >/dev/null 2>&1 && [ "$folder" != / ]; do folder=$(dirname -- "$folder"); done
    df -Pk -- "$folder" | tail -n 1
done
