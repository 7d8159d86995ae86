#!/usr/bin/env bash
# Kills a training run at random moments and resumes it, then compares what it leaves with an uninterrupted
# run, byte for byte.
# usage: kill_and_resume.sh [KILLS=20]      (GRADLOOM: the built command)
set -euo pipefail
kills=${1:-20}
gradloom=$(realpath "${GRADLOOM:-target/release/gradloom}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

flags=(--layers 2 --width 64 --context 64 --batch 8 --steps 1500 --eval-every 100 --save-every 20)
"$gradloom" train "${flags[@]}" --out whole > whole.log

"$gradloom" train "${flags[@]}" --out killed > killed.log &
pid=$!
until [ -f killed/state.safetensors ]; do sleep 0.01; done
for i in $(seq "$kills"); do
  sleep "0.$(printf '%03d' $((RANDOM % 600)))"
  kill -9 "$pid" 2> /dev/null || true
  wait "$pid" 2> /dev/null || true
  # A state that can be sampled from is sound.
  [ ! -f killed/model.safetensors ] || "$gradloom" sample killed --tokens 1 > /dev/null
  "$gradloom" train --resume killed > killed.log 2>&1 &
  pid=$!
  echo "kill $i: $(tail -n 1 killed/metrics.csv | cut -d, -f1) steps in the metrics"
done
wait "$pid" || { cat killed.log >&2; exit 1; }
for file in config.json metrics.csv loss.svg model.safetensors state.safetensors sample.txt; do
  cmp "whole/$file" "killed/$file"
done
echo "after $kills kills: all files are those of the uninterrupted run"
