#!/bin/sh
# Trains the default pair from a corpus folder and writes it to an output folder.
# Usage: train_pair.sh CORPUS WORK OUT
# Every training step goes on from its last checkpoint in WORK when started again.
set -eu
corpus=$1 work=$2 out=$3
here=$(dirname "$0")
python=${PYTHON:-/usr/bin/python3}

# Keep freed memory in the process: the tensors of a step are large, and mapping
# them anew each time costs about as much as the arithmetic.
export MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=-1 MALLOC_TOP_PAD_=500000000

tokenizer=$work/tokenizer/tokenizer.json
[ -f "$tokenizer" ] ||
    "$python" "$here/train_tokenizer.py" --corpus "$corpus" --out "$work/tokenizer"

"$python" "$here/train.py" --model target --corpus "$corpus" --tokenizer "$tokenizer" \
    --work "$work/target" --steps 11600 --rate 2e-3
"$python" "$here/export.py" --checkpoint "$work/target/checkpoint.pt" \
    --tokenizer "$tokenizer" --out "$out/target"

"$python" "$here/sample.py" --target "$out/target" --corpus "$corpus" \
    --out "$work/sampled.npy" --batches 12
"$python" "$here/distil.py" --target "$out/target" --corpus "$corpus" \
    --sampled "$work/sampled.npy" --corpus-rows 2400 \
    --work "$work/drafter" --steps 9700 --rate 3e-3 --warmup 100
"$python" "$here/export.py" --checkpoint "$work/drafter/checkpoint.pt" \
    --tokenizer "$tokenizer" --out "$out/drafter"

"$python" "$here/sharpen.py" --pair "$out" --temperature 0.7
"$python" "$here/evaluate.py" --pair "$out" --corpus "$corpus"
"$python" "$here/reference.py" --pair "$out"
