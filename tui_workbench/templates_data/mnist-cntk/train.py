"""Train a small convolutional network on MNIST with CNTK 2.7 (Python 3.5 or 3.6).

    python train.py --epochs 3 --batch-size 64 --lr 0.01 --seed 0 --device auto

The script logs loss and accuracy for each epoch, and writes `model.dnn` and `metrics.json` to `outputs/`.
"""

from __future__ import print_function

import argparse
import gzip
import json
import os
import struct
import sys

try:
    from urllib.request import urlretrieve
except ImportError:
    from urllib import urlretrieve

import cntk as C
import numpy as np

try:
    from azureml.logging import get_azureml_logger
except ImportError:
    get_azureml_logger = None

SOURCE = "https://storage.googleapis.com/cvdf-datasets/mnist/"
PIXELS = 28
CLASSES = 10
TRAINING = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")
TEST = ("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")


def main():
    """Train, evaluate and save the model."""
    arguments = parse_arguments()
    choose_device(arguments.device)
    np.random.seed(arguments.seed)
    C.cntk_py.set_fixed_random_seed(arguments.seed)
    logger = get_azureml_logger() if get_azureml_logger is not None else None
    images, labels = load(TRAINING)
    test_images, test_labels = load(TEST)

    pixels = C.input_variable((1, PIXELS, PIXELS))
    truth = C.input_variable(CLASSES)
    model = build_model(pixels)
    loss = C.cross_entropy_with_softmax(model, truth)
    errors = C.classification_error(model, truth)
    rate = C.learning_parameter_schedule(arguments.lr, arguments.batch_size)
    trainer = C.Trainer(model, (loss, errors), [C.adam(model.parameters, rate, C.momentum_schedule(0.9))])

    accuracy = 0.0
    for epoch in range(arguments.epochs):
        mean_loss = train_epoch(trainer, pixels, truth, images, labels, arguments.batch_size)
        accuracy = evaluate(trainer, pixels, truth, test_images, test_labels)
        print("epoch {} loss {:.4f} accuracy {:.4f}".format(epoch + 1, mean_loss, accuracy))
        sys.stdout.flush()
        if logger is not None:
            logger.log("loss", mean_loss)
            logger.log("accuracy", accuracy)

    if not os.path.isdir("outputs"):
        os.makedirs("outputs")
    model.save(os.path.join("outputs", "model.dnn"))
    with open(os.path.join("outputs", "metrics.json"), "w") as file:
        json.dump({"test_accuracy": accuracy}, file, indent=2)


def parse_arguments():
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3, help="passes over the training images")
    parser.add_argument("--batch-size", type=int, default=64, help="images per step")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto", help="where to train")
    return parser.parse_args()


def choose_device(wanted):
    """Choose a GPU or the CPU and print it; exit if a GPU is required but missing."""
    gpus = [device for device in C.device.all_devices() if device.type() == C.device.DeviceKind.GPU]
    if wanted == "gpu" and not gpus:
        sys.exit("train.py: CNTK found no GPU. To train on the CPU, use --device auto.")
    device = gpus[0] if gpus and wanted != "cpu" else C.device.cpu()
    C.device.try_set_default_device(device)
    print("device:", device)


def load(names):
    """Return images with values from 0 to 1 and one-hot labels; download them once into the shared folder."""
    share = os.environ.get("AZUREML_NATIVE_SHARE_DIRECTORY", "data")
    if not os.path.isdir(share):
        os.makedirs(share)
    arrays = []
    for name in names:
        path = os.path.join(share, name)
        if not os.path.exists(path):
            part = "{}.{}".format(path, os.getpid())
            urlretrieve(SOURCE + name, part)
            os.rename(part, path)
        with gzip.open(path, "rb") as file:
            data = file.read()
        dimensions = data[3] if isinstance(data[3], int) else ord(data[3])
        shape = struct.unpack(">" + "I" * dimensions, data[4 : 4 + 4 * dimensions])
        arrays.append(np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape))
    images, labels = arrays
    return (
        images.reshape(-1, 1, PIXELS, PIXELS).astype(np.float32) / 255,
        np.eye(CLASSES, dtype=np.float32)[labels],
    )


def build_model(pixels):
    """Build two convolutions and a dense layer."""
    layers = C.layers
    network = layers.Sequential(
        [
            layers.Convolution2D((5, 5), 8, activation=C.relu, pad=True),
            layers.MaxPooling((2, 2), strides=(2, 2)),
            layers.Convolution2D((5, 5), 16, activation=C.relu, pad=True),
            layers.MaxPooling((2, 2), strides=(2, 2)),
            layers.Dense(CLASSES, activation=None),
        ]
    )
    return network(pixels)


def train_epoch(trainer, pixels, truth, images, labels, size):
    """Train on all images once, in random order; return the mean loss of the batches."""
    order = np.random.permutation(len(images))
    losses = []
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        trainer.train_minibatch({pixels: images[chosen], truth: labels[chosen]})
        losses.append(trainer.previous_minibatch_loss_average)
    return float(np.mean(losses))


def evaluate(trainer, pixels, truth, images, labels, size=500):
    """Return the share of correctly classified test images."""
    wrong = [
        trainer.test_minibatch({pixels: images[start : start + size], truth: labels[start : start + size]})
        for start in range(0, len(images), size)
    ]
    return 1.0 - float(np.mean(wrong))


if __name__ == "__main__":
    main()
