# $1: the maximum number of seconds, $2: that of entries, then paths. Prints for each path: the numbers of files and
# bytes, the latest modification time in seconds since the epoch, and 1 if the time and all files were counted, else 0.
# `find` does not follow links below the path.
LC_ALL=C
export LC_ALL
seconds=$1 most=$2
shift 2
for path; do
    { nice -n 10 timeout "$seconds" find -H "$path" -printf '%y %s %T@\n' 2>/dev/null || echo partial; } |
        head -n "$most" |
        awk -v most="$most" '$1 == "partial" { partial = 1; next }
            $1 == "f" { files++; bytes += $2 }
            $3 > newest { newest = $3 }
            END { printf "%.0f %.0f %.3f %d\n", files, bytes, newest, !partial && NR < most }'
done
