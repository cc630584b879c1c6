"""Train a small convolutional network on MNIST with TensorFlow.

    python train.py --epochs 3 --batch-size 128 --lr 0.001 --seed 0 --device auto

The script logs loss and accuracy for each epoch, and writes `model.keras` and `metrics.json` to `outputs/`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

import tensorflow as tf

try:
    import workbench  # available in every run of the workbench
except ImportError:
    workbench = None

HERE = Path(__file__).resolve().parent
OUTPUTS = HERE / "outputs"
PIXELS = 28
CLASSES = 10


class LogEpochs(tf.keras.callbacks.Callback):
    """A callback that prints the metrics of each epoch, and logs them in runs of the workbench."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        values = {name: float(value) for name, value in (logs or {}).items()}
        print(f"epoch {epoch + 1}", " ".join(f"{name} {value:.4f}" for name, value in values.items()), flush=True)
        if workbench is not None:
            for name, value in values.items():
                workbench.log(name, value, step=epoch + 1)


def main() -> None:
    """Train, evaluate and save the model."""
    arguments = parse_arguments()
    tf.keras.utils.set_random_seed(arguments.seed)
    choose_device(arguments.device)
    images, labels, test_images, test_labels = load_mnist()
    model = build_model(arguments.lr)
    model.fit(
        images,
        labels,
        epochs=arguments.epochs,
        batch_size=arguments.batch_size,
        validation_data=(test_images, test_labels),
        callbacks=[LogEpochs()],
        verbose=0,
    )
    loss, accuracy = model.evaluate(test_images, test_labels, verbose=0)
    OUTPUTS.mkdir(exist_ok=True)
    model.save(OUTPUTS / "model.keras")
    metrics = {"test_loss": float(loss), "test_accuracy": float(accuracy)}
    (OUTPUTS / "metrics.json").write_text(json.dumps(metrics, indent=2) + "\n", encoding="utf-8")
    print(f"test accuracy {accuracy:.4f}")


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=3, help="passes over the training images")
    parser.add_argument("--batch-size", type=int, default=128, help="images per step")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto", help="where to train")
    return parser.parse_args()


def choose_device(wanted: str) -> None:
    """Choose a GPU or the CPU and print it; exit if a GPU is required but missing."""
    gpus = tf.config.list_physical_devices("GPU")
    if wanted == "gpu" and not gpus:
        sys.exit("train.py: TensorFlow found no GPU. To train on the CPU, use --device auto.")
    if wanted == "cpu":
        tf.config.set_visible_devices([], "GPU")
        gpus = []
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
    print("device:", ", ".join(names) or "CPU", flush=True)


def load_mnist() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return training and test images with values from 0 to 1; download them once into the shared folder."""
    share = Path(os.environ.get("AZUREML_NATIVE_SHARE_DIRECTORY", HERE / "data"))
    share.mkdir(parents=True, exist_ok=True)
    (images, labels), (test_images, test_labels) = tf.keras.datasets.mnist.load_data(path=str(share / "mnist.npz"))
    shape = (-1, PIXELS, PIXELS, 1)
    return images.reshape(shape) / 255.0, labels, test_images.reshape(shape) / 255.0, test_labels


def build_model(learning_rate: float) -> tf.keras.Model:
    """Return a compiled model with two convolutions and a dense layer."""
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((PIXELS, PIXELS, 1)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(CLASSES, activation="softmax"),
        ]
    )
    model.compile(tf.keras.optimizers.Adam(learning_rate), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


if __name__ == "__main__":
    main()
