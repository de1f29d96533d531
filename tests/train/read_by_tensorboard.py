#!/usr/bin/env python3
"""TensorBoard itself reads what brim writes: SummaryWriter's events, and those of a training that is
resumed. read_by_tensorboard.py BRIM TRAIN_TEST; needs the package tensorboard."""

import os
import pathlib
import subprocess
import sys
import tempfile

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import graph_pb2
from tensorboard.plugins.hparams import plugin_data_pb2


def read(folder):
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "histograms": 0, "images": 0, "tensors": 0})
    events.Reload()
    return events


def hparams_of(events, tag):
    return plugin_data_pb2.HParamsPluginData.FromString(events.SummaryMetadata(tag).plugin_data.content)


def graph_of(events):
    graph = graph_pb2.GraphDef()
    graph.ParseFromString(events.Graph().SerializeToString())
    return graph


def shape_of(node):
    return [dim.size for dim in node.attr["_output_shapes"].list.shape[0].dim]


def check_writer(test, folder):
    subprocess.run([test, "--gtest_filter=SummaryWriterTest.ForTensorBoard", "--gtest_brief=1"], check=True,
                   env={**os.environ, "BRIM_TENSORBOARD_FOLDER": str(folder)})
    events = read(folder)
    loss = [(e.step, round(e.value, 6)) for e in events.Scalars("loss")]
    assert loss == [(step, round(1 / (1 + step), 6)) for step in range(5)], loss
    histogram = events.Histograms("weights")[0].histogram_value
    assert (histogram.min, histogram.max, histogram.num, histogram.sum) == (0, 99, 100, 4950), histogram
    assert sum(histogram.bucket) == 100 and len(histogram.bucket) == len(histogram.bucket_limit)
    picture = events.Images("picture")[0]
    assert (picture.height, picture.width) == (4, 5)
    assert picture.encoded_image_string.startswith(b"\x89PNG")
    assert events.Tensors("note")[0].tensor_proto.string_val == [b"# A note"]
    nodes = {node.name: node for node in graph_of(events).node}
    assert list(nodes["body/1"].input) == ["body/0"] and list(nodes["body/0"].input) == ["input"], nodes
    assert nodes["body/0"].op == "Linear" and shape_of(nodes["body/0"]) == [2, 3], nodes
    start = hparams_of(events, "_hparams_/session_start_info").session_start_info
    assert start.hparams["lr"].number_value == 0.5 and start.hparams["optimizer"].string_value == "sgd"
    experiment = hparams_of(events, "_hparams_/experiment").experiment
    assert [m.name.tag for m in experiment.metric_infos] == ["loss"]


def check_training(brim, folder):
    def train(*options):
        subprocess.run([brim, "train", *options, "--tensorboard", folder / "events", "--monitor", "0.05"],
                       check=True, stdout=subprocess.DEVNULL)

    out = folder / "out"
    train("tutorial-cnn", "--data", "shapes10", "--epochs", "1", "--out", out)
    train("--resume", out, "--epochs", "2")
    events = read(folder / "events")
    tags = events.Tags()
    for tag in ("train/loss", "train/learning_rate", "train/samples_per_s", "host/load", "test/loss", "test/accuracy"):
        assert tag in tags["scalars"], (tag, tags)
    steps = [e.step for e in events.Scalars("train/loss")]
    assert steps == sorted(set(steps)) and len(steps) >= 20, steps
    assert "weights/conv1.weight" in tags["histograms"], tags
    assert "test/confusion" in tags["images"], tags
    assert "test/most_wrong/00" in tags["images"], tags
    assert b"taken for" in events.Tensors("test/most_wrong")[0].tensor_proto.string_val[0]
    nodes = {node.name: node for node in graph_of(events).node}
    assert nodes["conv1"].op == "Conv2d" and shape_of(nodes["conv1"]) == [4, 6, 28, 28], nodes
    epochs = [e.step for e in events.Histograms("weights/conv1.weight")]
    assert len(epochs) == 2 and epochs[1] == 2 * epochs[0], epochs
    assert b"tutorial-cnn" in events.Tensors("recipe")[0].tensor_proto.string_val[0]
    assert b"| cpu | compute |" in events.Tensors("account")[-1].tensor_proto.string_val[0]


def main():
    brim, test = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        check_writer(test, pathlib.Path(folder) / "writer")
        check_training(brim, pathlib.Path(folder) / "run")
    print("TensorBoard reads it")


main()
