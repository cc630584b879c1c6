"""Classify irises with the logistic regression of Spark ML.

    spark-submit train.py --regularization 0.01

The script prints and logs the accuracy on flowers that are not in the training data, and writes the model to
`outputs/model`.
"""

import argparse
import os

from pyspark.ml import Pipeline
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.sql import SparkSession

try:
    import workbench
except ImportError:
    # Outside the workbench, the script only prints its metrics.
    workbench = None

SIZES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]


def load(spark, path):
    """Return the flowers as a DataFrame."""
    schema = ", ".join("{} double".format(size) for size in SIZES) + ", species string"
    return spark.read.csv("file://" + os.path.abspath(path), schema=schema, header=True)


def build(regularization):
    """Return the training pipeline."""
    return Pipeline(
        stages=[
            VectorAssembler(inputCols=SIZES, outputCol="features"),
            StringIndexer(inputCol="species", outputCol="label"),
            LogisticRegression(regParam=regularization),
        ]
    )


def log(name, value):
    """Print a metric, and log it for the charts of the workbench."""
    print("{}: {:.4f}".format(name, value))
    if workbench is not None:
        workbench.log(name, value)


def main():
    """Train, evaluate and save the model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--regularization", type=float, default=0.01, help="strength of the regularization")
    parser.add_argument("--seed", type=int, default=0, help="random seed of the split into training and test data")
    arguments = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    train, test = load(spark, "data/iris.csv").randomSplit([0.7, 0.3], seed=arguments.seed)
    model = build(arguments.regularization).fit(train)
    log("regularization", arguments.regularization)
    log("accuracy", MulticlassClassificationEvaluator(metricName="accuracy").evaluate(model.transform(test)))
    model.write().overwrite().save("file://" + os.path.abspath("outputs/model"))
    spark.stop()


if __name__ == "__main__":
    main()
