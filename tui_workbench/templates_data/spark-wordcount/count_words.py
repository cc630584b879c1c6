"""Count the words of a text with Spark.

    spark-submit count_words.py data/alice.txt --top 10

The script prints the most frequent words, logs the number of words and of different words, and writes
`outputs/words.csv`.
"""

import argparse
import csv
import os
import re

from pyspark.sql import SparkSession

try:
    import workbench
except ImportError:
    # Outside the workbench, the script only prints its results.
    workbench = None

WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")


def words_of(line):
    """Return the words of a line in lowercase. Runs on the executors."""
    return [word.lower() for word in WORD.findall(line)]


def count_words(spark, path):
    """Return pairs of a word and its number of occurrences, the most frequent words first."""
    counts = (
        spark.sparkContext.textFile(path, minPartitions=4)
        .flatMap(words_of)
        .map(lambda word: (word, 1))
        .reduceByKey(lambda one, other: one + other)
    )
    return sorted(counts.collect(), key=lambda pair: (-pair[1], pair[0]))


def write(pairs, folder="outputs"):
    """Write the pairs to `words.csv` in a folder."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "words.csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("word", "count"))
        writer.writerows(pairs)


def main():
    """Count the words, and print, log and save the result."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path", nargs="?", default="data/alice.txt", help="text file to read")
    parser.add_argument("--top", type=int, default=10, help="number of words to print")
    arguments = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    pairs = count_words(spark, "file://" + os.path.abspath(arguments.path))
    spark.stop()
    for word, count in pairs[: arguments.top]:
        print("{:6}  {}".format(count, word))
    if workbench is not None:
        workbench.log("words", sum(count for _, count in pairs))
        workbench.log("different words", len(pairs))
    write(pairs)


if __name__ == "__main__":
    main()
