#!/usr/bin/env python3
"""Makes the reference cases in cases/: small Qwen2 and Llama models, trained for ten steps by
transformers in float64 with an AdamW written out here. Needs torch, transformers, safetensors.

  make_cases.py           writes all cases
  make_cases.py --check   makes them again in a temporary folder and compares with the files here
"""
import argparse
import json
import math
import pathlib
import struct
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = pathlib.Path(__file__).resolve().parent / "cases"
STEPS = 10
GLOBAL_BATCH_SIZE = 12  # splits among 1, 2, 3, 4 ranks
BETA1, BETA2, EPSILON, WEIGHT_DECAY = 0.9, 0.95, 1e-2, 0.1

# What fresh, even models hide shows here: prime vocabularies, odd lengths, biases, norm weights
# that are not 1, an epsilon that matters, a head_dim of its own, ties. `rope` is how config.json
# spells it: "old" rope_theta, "new" rope_parameters. Tokens: "txt" bytes, or the .bin's format.
# The seeds are such that torch's own float32 keeps grad_norm to 1e-6 of float64: with a few others
# a step is so ill-conditioned that any float32 misses 1e-5.
CASES = {
    "qwen2-tied": dict(
        seed=22, model_type="qwen2", vocab_size=97, hidden_size=24, intermediate_size=40, layers=5,
        heads=4, kv_heads=2, theta=10000.0, rope="old", eps=1e-6, tied=True, sequence_length=17,
        tokens="txt", num_tokens=1500, ignore=5, lr=1e-2, min_lr=1e-3, warmup=3, decay=10,
        schedule="cosine"),
    "qwen2-one-kv-head": dict(
        seed=33, model_type="qwen2", vocab_size=101, hidden_size=24, intermediate_size=32, layers=7,
        heads=6, kv_heads=1, theta=1000000.0, rope="old", eps=1e-5, tied=False, sequence_length=13,
        tokens="u16", num_tokens=1201, ignore=100, lr=5e-3, min_lr=0.0, warmup=2, decay=8,
        schedule="cosine"),
    "llama-tied": dict(
        seed=3, model_type="llama", vocab_size=103, hidden_size=30, intermediate_size=38, layers=4,
        heads=5, kv_heads=1, theta=500000.0, rope="new", eps=1e-5, tied=True, sequence_length=15,
        tokens="txt", num_tokens=2003, ignore=0, lr=1e-2, min_lr=2e-3, warmup=4, decay=30,
        schedule="cosine"),
    "llama-head-dim": dict(
        seed=4, model_type="llama", vocab_size=107, hidden_size=32, intermediate_size=28, layers=4,
        heads=4, kv_heads=2, head_dim=10, theta=10000.0, rope="new", eps=0.05, tied=False,
        sequence_length=19, tokens="i32", num_tokens=1407, ignore=31, lr=1e-2, min_lr=1e-3,
        warmup=1, decay=9, schedule="linear"),
    "qwen2-all-count": dict(
        seed=5, model_type="qwen2", vocab_size=109, hidden_size=24, intermediate_size=36, layers=4,
        heads=4, kv_heads=1, theta=10000.0, rope="new", eps=1e-3, tied=False, sequence_length=16,
        tokens="txt", num_tokens=999, ignore=None, lr=1e-2, min_lr=1e-3, warmup=0, decay=10,
        schedule="cosine"),
}


KINDS = {"qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
         "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM)}


class Float64(torch.overrides.TorchFunctionMode):
    """transformers computes norms, softmax and rotary angles in float32 whatever the model's dtype;
    this makes every mention of float32 a float64."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        swap = lambda x: torch.float64 if x is torch.float32 else x
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        result = function(*map(swap, args), **{k: swap(v) for k, v in (kwargs or {}).items()})
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            assert result.dtype == torch.float64, f"{function} returned {result.dtype}"
        return result


def config_of(case):
    """Hugging Face's config.json, as hub folders spell it."""
    config = {
        "architectures": [KINDS[case["model_type"]][1].__name__],
        "model_type": case["model_type"], "vocab_size": case["vocab_size"],
        "hidden_size": case["hidden_size"], "intermediate_size": case["intermediate_size"],
        "num_hidden_layers": case["layers"], "num_attention_heads": case["heads"],
        "num_key_value_heads": case["kv_heads"], "rms_norm_eps": case["eps"],
        "tie_word_embeddings": case["tied"], "hidden_act": "silu", "initializer_range": 0.02,
        "max_position_embeddings": 64, "attention_dropout": 0.0, "use_cache": False,
        "bos_token_id": 1, "eos_token_id": 2, "torch_dtype": "float32"}
    if case["rope"] == "old":
        config["rope_theta"] = case["theta"]
    else:
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": case["theta"]}
    if case["model_type"] == "llama":
        config.update(attention_bias=False, mlp_bias=False)
    if "head_dim" in case:
        config["head_dim"] = case["head_dim"]
    return config


def make_model(config, random):
    """Weights far from fresh ones, each exactly a float32. RandomState's stream is frozen."""
    config_type, model_type = KINDS[config["model_type"]]
    settings = {k: v for k, v in config.items() if k not in ("architectures", "torch_dtype")}
    with Float64():
        model = model_type(config_type(**settings, attn_implementation="eager"))
    for name, weight in sorted(model.named_parameters()):
        draw = torch.from_numpy(random.standard_normal(tuple(weight.shape)))
        if "norm" in name:
            draw = 1 + 0.1 * draw
        else:
            draw = (0.1 if name.endswith("bias") else 0.2) * draw
        weight.data.copy_(draw.to(torch.float32))
    return model


def make_documents(case, random):
    """Documents of odd lengths; some consist mostly of ignored tokens, some hardly."""
    documents, left = [], case["num_tokens"]
    while left > 0:
        length = min(left, 2 * random.randint(5, 40) + 1)
        document = random.randint(0, case["vocab_size"], length)
        if case["ignore"] is not None:
            share = random.choice([0.0, 0.3, 0.95])
            document[random.random_sample(length) < share] = case["ignore"]
        documents.append(document)
        left -= length
    return documents


def write_tokens(folder, case, documents):
    """Returns data.path."""
    if case["tokens"] == "txt":
        (folder / "tokens.txt").write_bytes(np.concatenate(documents).astype(np.uint8).tobytes())
        return "tokens.txt"
    code, dtype = {"u16": (8, np.dtype("<u2")), "i32": (4, np.dtype("<i4"))}[case["tokens"]]
    lengths = np.array([len(d) for d in documents], "<i4")
    pointers = (np.cumsum(lengths, dtype="<i8") - lengths) * dtype.itemsize
    (folder / "tokens.bin").write_bytes(np.concatenate(documents).astype(dtype).tobytes())
    (folder / "tokens.idx").write_bytes(
        b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1) +
        lengths.tobytes() + pointers.astype("<i8").tobytes() +
        np.arange(len(lengths) + 1, dtype="<i8").tobytes())
    return "tokens"


def batch_of(case, tokens, step):
    """Inputs and targets of a global batch: sample i is tokens [i*S, i*S + S], unshuffled."""
    length = case["sequence_length"]
    num_samples = (len(tokens) - 1) // length
    first = step * GLOBAL_BATCH_SIZE
    samples = [(first + j) % num_samples * length for j in range(GLOBAL_BATCH_SIZE)]
    rows = torch.tensor(np.stack([tokens[s:s + length + 1] for s in samples]), dtype=torch.int64)
    return rows[:, :-1], rows[:, 1:]


def learning_rate(case, update):
    if update < case["warmup"]:
        return case["lr"] * (update + 1) / case["warmup"]
    if update >= case["decay"]:
        return case["min_lr"]
    progress = (update - case["warmup"]) / (case["decay"] - case["warmup"])
    share = 1 - progress
    if case["schedule"] == "cosine":
        share = 0.5 * (1 + math.cos(math.pi * progress))
    return case["min_lr"] + share * (case["lr"] - case["min_lr"])


def gradients_of(case, model, inputs, targets):
    """Loss of the whole batch in one forward, number of counted targets, gradients by name."""
    model.zero_grad()
    with Float64():
        logits = model(input_ids=inputs, use_cache=False).logits
    counts = targets != (-1 if case["ignore"] is None else case["ignore"])
    loss = torch.nn.functional.cross_entropy(logits[counts], targets[counts])
    loss.backward()
    return loss.item(), int(counts.sum()), {n: p.grad for n, p in model.named_parameters()}


def update(weight, gradient, state, lr, number):
    """AdamW (Loshchilov and Hutter 2019), as torch.optim.AdamW; `number` from 1."""
    if weight.dim() >= 2:
        weight.mul_(1 - lr * WEIGHT_DECAY)
    mean, square = state
    mean.mul_(BETA1).add_((1 - BETA1) * gradient)
    square.mul_(BETA2).add_((1 - BETA2) * gradient * gradient)
    denominator = (square / (1 - BETA2**number)).sqrt() + EPSILON
    weight.sub_(lr / (1 - BETA1**number) * mean / denominator)


def train(case, model, tokens):
    """Returns the clip, the expected values of each step and step 1's gradients."""
    expected = {"loss": [], "grad_norm": [], "lr": [], "valid_tokens": []}
    weights = dict(model.named_parameters())  # a tied weight once
    states = {n: (torch.zeros_like(w), torch.zeros_like(w)) for n, w in weights.items()}
    for step in range(STEPS):
        loss, valid, gradients = gradients_of(case, model, *batch_of(case, tokens, step))
        norm = math.sqrt(sum(g.square().sum().item() for g in gradients.values()))
        lr = learning_rate(case, step)
        if step == 0:
            first_gradients = {n: g.clone() for n, g in gradients.items()}
            clip = float(f"{norm / 4:.3g}")
        coefficient = min(1.0, clip / (norm + 1e-6))
        with torch.no_grad():
            for name, weight in weights.items():
                update(weight, coefficient * gradients[name], states[name], lr, step + 1)
        for key, value in zip(expected, (loss, norm, lr, valid)):
            expected[key].append(value)
    return clip, expected, first_gradients


def run_toml(case, data_path, clip):
    """The run, but for the layout: mesh, micro batch, backend and strategies are the test's."""
    ignore = "" if case["ignore"] is None else f"ignore_token = {case['ignore']}\n"
    return f"""# made by make_cases.py; to be started in this folder
[model]
path = "."
init = "pretrained"

[data]
path = "{data_path}"
sequence_length = {case['sequence_length']}
shuffle = false
{ignore}
[train]
steps = {STEPS}
global_batch_size = {GLOBAL_BATCH_SIZE}
dtype = "float32"

[optimizer]
lr = {case['lr']}
min_lr = {case['min_lr']}
schedule = "{case['schedule']}"
warmup_steps = {case['warmup']}
decay_steps = {case['decay']}
beta1 = {BETA1}
beta2 = {BETA2}
epsilon = {EPSILON}
weight_decay = {WEIGHT_DECAY}
clip_norm = {clip}
"""


def tensors_of(named, dtype):
    return {n: t.detach().to(dtype).contiguous() for n, t in sorted(named.items())}


def make(name, folder):
    case = CASES[name]
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.RandomState(case["seed"])
    config = config_of(case)
    model = make_model(config, random)
    documents = make_documents(case, random)
    data_path = write_tokens(folder, case, documents)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    save_file(tensors_of(dict(model.named_parameters()), torch.float32),
              folder / "model.safetensors", {"format": "pt"})
    clip, expected, gradients = train(case, model, np.concatenate(documents))
    (folder / "run.toml").write_text(run_toml(case, data_path, clip))
    expected["made_with"] = {"torch": torch.__version__, "transformers": transformers.__version__}
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    save_file(tensors_of(gradients, torch.float64), folder / "gradients.safetensors")
    weights = dict(model.named_parameters())
    save_file(tensors_of(weights, torch.float64), folder / "final.safetensors")


def worst(values):
    return max(values, key=lambda x: math.inf if math.isnan(x) else x)


def difference(here, made):
    """Largest relative difference of two files: of tensors by norm, of numbers, else of bytes."""
    if here.suffix == ".safetensors":
        a, b = load_file(here), load_file(made)
        if a.keys() != b.keys():
            return math.inf
        return worst(((a[n] - b[n]).norm() / b[n].norm()).item() for n in a)
    if here.name == "expected.json":
        a, b = json.loads(here.read_text()), json.loads(made.read_text())
        del a["made_with"], b["made_with"]
        return worst(abs(x - y) / max(abs(y), 1e-300)
                     for k in b for x, y in zip(a[k], b[k], strict=True))
    return 0.0 if here.read_bytes() == made.read_bytes() else math.inf


def check():
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        for name in CASES:
            made_folder = pathlib.Path(temporary) / name
            make(name, made_folder)
            folders = (HERE / name, made_folder)
            names = {file.name for folder in folders for file in folder.glob("*") if file.is_file()}
            for file in sorted(names):
                here, made = (folder / file for folder in folders)
                largest = difference(here, made) if here.exists() and made.exists() else math.inf
                failed |= not largest <= 1e-12
                print(f"{name}/{file}: {largest:.1e}{'' if largest <= 1e-12 else '  FAILED'}")
    return int(failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    if arguments.check:
        return check()
    for name in CASES:
        make(name, HERE / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
