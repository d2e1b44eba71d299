#!/usr/bin/env python3
"""Other programs open what `host export` writes: safetensors' and transformers' own readers.

usage: open_exports.py HOST CASES   HOST: the program; CASES: folders with run.toml and model.safetensors
Exports each case without training, in float32, and compares every tensor with the case's, bit for bit.
"""
import subprocess, sys, tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM

host, cases = sys.argv[1], sorted(path.parent for path in Path(sys.argv[2]).glob("*/run.toml"))
assert cases, f"no cases in {sys.argv[2]}"
for case in cases:
    with tempfile.TemporaryDirectory() as work:
        out = Path(work) / "export"
        command = [host, "export", "--config", "run.toml", "--to", str(out), "--set", "train.micro_batch_size=1"]
        subprocess.run(command, cwd=case, check=True)
        with safe_open(case / "model.safetensors", "pt") as given, safe_open(out / "model.safetensors", "pt") as written:
            assert written.metadata()["format"] == "pt"
            names = set(given.keys()) - {"lm_head.weight"} | (set(written.keys()) & {"lm_head.weight"})
            assert set(written.keys()) == names, set(written.keys()) ^ names
            for name in names:
                assert torch.equal(given.get_tensor(name).float(), written.get_tensor(name)), name
        model, info = AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        state = model.state_dict()
        with safe_open(out / "model.safetensors", "pt") as written:
            for name in written.keys():
                assert torch.equal(state[name], written.get_tensor(name)), name
    print(f"{case.name}: {len(names)} tensors equal in both readers")
