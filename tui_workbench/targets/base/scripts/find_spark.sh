# $1: the interpreter, $2: the value of sparkSubmitLocation; then variables of the run, such as PATH. The programs that
# the script itself starts are not looked up in this PATH. Prints four lines: the path of `spark-submit`, the folder of
# Spark, the file name of its core library, and the path of `java`. The line of a missing part is empty. `spark-submit`
# can be a wrapper in the folder `bin` of a distribution, which may have its own `jars` but no `spark-class`.
python=$1 named=$2 found='' home='' core='' usual=$PATH
shift 2
# shellcheck disable=SC2163  # the argument is NAME=VALUE
for each; do export "$each"; done
# shellcheck disable=SC2088  # the user has written `~/`
case $named in
    '' | /*) ;;
    "~/"*) named=$HOME/${named#"~/"} ;;
    */*) named=$HOME/$named ;;
esac
if [ -n "$named" ]; then found=$(command -v -- "$named")
elif [ -n "$SPARK_HOME" ]; then found=$(command -v -- "$SPARK_HOME/bin/spark-submit")
else
    prefix=${python%/*}/..
    for each in "$prefix"/lib/python*/site-packages "$prefix"/local/lib/python*/dist-packages; do
        [ -x "$each/pyspark/bin/spark-submit" ] && found=$each/pyspark/bin/spark-submit
    done
    for each in spark-submit "$HOME/.local/bin/spark-submit"; do
        [ -n "$found" ] || found=$(command -v -- "$each")
    done
fi
if [ -f "$found" ] && [ -x "$found" ]; then
    found=$(PATH=$usual; readlink -f -- "$found")
    near=${found%/*/*}
    for each in "$near" "$near"/lib/python*/site-packages/pyspark; do
        for jar in "$each"/jars/spark-core_*.jar; do
            [ -e "$jar" ] && [ -e "$each/bin/spark-class" ] && home=$each core=${jar##*/}
        done
    done
else
    found=''
fi
if [ -n "$JAVA_HOME" ]; then java=$(command -v -- "$JAVA_HOME/bin/java"); else java=$(command -v java); fi
printf '%s\n' "$found" "$home" "$core" "$java"
