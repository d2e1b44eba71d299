#!/bin/bash
# Installs the build, moves the result, builds sdk/example against it and trains with that strategy.
# Its losses and gradient norms must be those of the ddp plugin.
#   out_of_tree_test.sh <source folder> <build folder> <cmake> <compiler>
set -euo pipefail
source_folder=$1 build_folder=$2 cmake=$3 compiler=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
  echo "out_of_tree: $*" >&2
  exit 1
}

"$cmake" --install "$build_folder" --prefix "$work/first" >"$work/install.log" ||
  fail "cmake --install failed: $(tail -5 "$work/install.log")"
mv "$work/first" "$work/prefix"  # nothing in it may point back to where it was installed
prefix=$work/prefix
for file in bin/host include/cleave/strategy.h lib/cleave/plugins/libcleave_strategy_ddp.so; do
  [ -e "$prefix/$file" ] || fail "cmake --install did not bring $file"
done

configure() {  # <build folder> [-D...]
  "$cmake" -S "$work/example" -B "$1" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" "${@:2}" 2>&1
}

cp -r "$source_folder/sdk/example" "$work/example"  # so that no header of the checkout is near
configure "$work/build" || fail "find_package(Cleave) failed"
"$cmake" --build "$work/build"
[ -e "$work/build/libcleave_strategy_naive-ddp.so" ] || fail "no libcleave_strategy_naive-ddp.so"

# another LibTorch is refused with both versions
other=$work/other-torch
mkdir -p "$other/include/ATen" "$other/include/torch/headeronly" "$other/lib"
touch "$other/include/ATen/ATen.h" "$other/lib/libtorch_cpu.so" "$other/lib/libc10.so"
printf '#define TORCH_VERSION_%s\n' "MAJOR 1" "MINOR 2" "PATCH 3" \
  >"$other/include/torch/headeronly/version.h"
if configure "$work/build-other" -DCLEAVE_LIBTORCH="$other" >"$work/other.log"; then
  fail "LibTorch 1.2.3 was accepted"
fi
tr -s ' \n' ' ' <"$work/other.log" |
  grep -q "was built with LibTorch [0-9.]*, found is 1.2.3 at" ||
  fail "LibTorch 1.2.3 was refused without both versions: $(cat "$work/other.log")"

seq 1 2000 >"$work/numbers.txt"
cat >"$work/run.toml.in" <<TOML
[model]
architecture = "llama"
vocab_size = 256
hidden_size = 32
intermediate_size = 64
num_hidden_layers = 2
num_attention_heads = 2
num_key_value_heads = 1
[data]
path = "$work/numbers.txt"
sequence_length = 32
[train]
steps = 3
global_batch_size = 4
micro_batch_size = 1
[optimizer]
lr = 1e-3
[communication]
backend = "mpi"
[strategy.@STRATEGY@]
[metrics]
directory = "$work/@STRATEGY@"
TOML
train() {  # <strategy>; neither LD_LIBRARY_PATH nor the build's own plugins may help
  sed "s/@STRATEGY@/$1/" "$work/run.toml.in" >"$work/$1.toml"
  env -u LD_LIBRARY_PATH CLEAVE_PLUGIN_PATH="$work/build" \
    "$source_folder/tools/env" mpirun -np 2 "$prefix/bin/host" --config "$work/$1.toml" ||
    fail "training with $1 ended with $?"
  grep -oE '"(loss|grad_norm)":[^,}]*' "$work/$1/metrics.jsonl" >"$work/$1.numbers"
  [ "$(wc -l <"$work/$1.numbers")" = 6 ] || fail "$1: metrics.jsonl has not one line per step"
}
train naive-ddp
train ddp
# two ranks: each sum has two terms, so the order can't matter
cmp "$work/naive-ddp.numbers" "$work/ddp.numbers" || fail "naive-ddp and ddp train differently"
