#!/usr/bin/env python3
"""Other programs open a checkpoint: safetensors' own reader and Python's json are enough to put it together.

usage: open_checkpoints.py ENV HOST CASE   ENV: tools/env; HOST: the program; CASE: folder with run.toml
Trains two steps on three ranks that share the optimizer state, joins every tensor from the shards by what the
manifest says of their slices, and compares the weights with what `host export` makes of the checkpoint.
"""
import json, math, subprocess, sys, tempfile
from pathlib import Path

import torch
from safetensors import safe_open

environment, host, case = sys.argv[1:]


def elements_of(shape, piece):
    """Row-major numbers, in the tensor, of a slice's elements."""
    ranges = [torch.arange(begin, end) for begin, end in zip(piece["box_begin"], piece["box_end"])]
    numbers = torch.zeros([], dtype=torch.long)
    for extent, dim in zip(shape, ranges):
        numbers = numbers[..., None] * extent + dim
    return numbers.flatten()[piece["begin"]:piece["end"]]


def read_tensors(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    shards = {file["name"]: safe_open(folder / file["name"], "pt") for file in manifest["files"]}
    tensors = {}
    for tensor in manifest["tensors"]:
        name, count = tensor["name"], math.prod(tensor["shape"])
        values, times = torch.zeros(count), torch.zeros(count)
        for piece in tensor["slices"]:
            elements = elements_of(tensor["shape"], piece)
            stored = shards[piece["file"]].get_tensor(name)
            assert stored.dtype == torch.float32, name
            values[elements] = stored.flatten()
            times[elements] += 1
        assert (times == 1).all(), name
        tensors[name] = values.reshape(tensor["shape"])
    assert sum(len(shard.keys()) for shard in shards.values()) == sum(len(t["slices"]) for t in manifest["tensors"])
    assert all(shard.metadata()["format"] == "pt" for shard in shards.values())
    return tensors


with tempfile.TemporaryDirectory() as work:
    checkpoints, exported = Path(work) / "checkpoints", Path(work) / "exported"
    train = [environment, "mpirun", "-np", "3", host, "--config", "run.toml"]
    for setting in ("train.steps=2", "train.micro_batch_size=2", "strategy.zero.stage=1",
                    "communication.backend=mpi", f"checkpoint.directory={checkpoints}",
                    f"metrics.directory={work}/metrics"):
        train += ["--set", setting]
    subprocess.run(train, cwd=case, check=True)
    subprocess.run([host, "export", "--checkpoint", str(checkpoints), "--to", str(exported)], check=True)
    tensors = read_tensors(checkpoints / "step-00000002")
    with safe_open(exported / "model.safetensors", "pt") as weights:
        names = list(weights.keys())
        assert {"exp_avg." + n for n in names} | {"exp_avg_sq." + n for n in names} | set(names) == set(tensors)
        for name in names:
            assert torch.equal(weights.get_tensor(name), tensors[name]), name
        assert all(tensors["exp_avg_sq." + name].any() for name in names)
print(f"{len(tensors)} tensors put together from 3 shards")
