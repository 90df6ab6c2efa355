#!/bin/bash
# Makes every file of this folder anew, in the current folder: commands.sh SOURCE BUILD
set -e
source=$1
strata=$2/strata

# The demo model's routing on its held-out text: 16 texts of 512 tokens, 12 layers x 64, 8 a token.
"$strata" perplexity "$source/data/strata-demo.gguf" -q --dump-routing demo.trace \
  --ids "$source/tests/data/demo/heldout_ids.npy" > /dev/null

both() {  # NAME ARGUMENTS...: the same simulation as a table and as JSON
  local name=$1
  shift
  "$strata" simulate "$@" > "$name.txt"
  "$strata" simulate "$@" --json > "$name.json"
}
plot() {  # NAME ARGUMENTS...
  local name=$1
  shift
  "$strata" simulate "$@" --plot "$name.svg" > /dev/null
}
few=(--policy lru --policy mixture --policy default --policy pairs --admission both)
sizes=(--cache 8 --cache 16 --cache 26 --cache 38)
policies=(--policy lru --policy lfru --policy lfu:8 --policy lfu:16 --policy lfu:32 --policy lfu:64
  --policy lfu:350 --policy mixture --policy default --policy pairs)
both demo-four-layers demo.trace --layers 0,3,6,9 "${sizes[@]}" "${policies[@]}" --admission both
both demo demo.trace "${sizes[@]}" "${policies[@]}" --admission both
plot demo demo.trace "${few[@]}" --cache 4 --cache 8 --cache 12 --cache 16 --cache 20 --cache 26 \
  --cache 32 --cache 38 --cache 48
both demo-second-half demo.trace --skip 4096 "${sizes[@]}" "${policies[@]}" --admission both
both demo-profile demo.trace --train-split 0.5 "${sizes[@]}" --policy static --policy default \
  --policy pairs --quota equal --quota marginal
both demo-first-come demo.trace "${sizes[@]}" --policy fill --quota equal --quota first-come
for every in 1 2 4 8; do
  "$strata" simulate demo.trace "${sizes[@]}" --policy default --adapt-every $every
done > demo-adapt-every.txt
for horizon in 16 32 64 96; do
  "$strata" simulate demo.trace "${sizes[@]}" --policy default --policy pairs --horizon $horizon
  "$strata" simulate --synthetic 3000 --layers 0-7 --skip 200 --cache 31 --cache 62 --cache 128 \
    --cache 210 --cache 302 --policy default --policy pairs --horizon $horizon
done > horizon.txt
topics=(--train-split 0.25 --over-time 16 --period 512 --policy static --policy lru
  --policy lfu:350 --policy default --policy pairs)
both demo-topics demo.trace --cache 25% "${topics[@]}"
plot demo-topics demo.trace --cache 25% "${topics[@]}"

# A model of 48 layers x 512 experts, 10 a token, made up to published hit rates.
large=(--cache 8 --cache 31 --cache 62 --cache 93 --cache 128 --cache 171 --cache 210 --cache 256
  --cache 302)
both large --synthetic 3000 --layers 0-7 --skip 200 "${large[@]}" --admission both --policy lru \
  --policy lfu:8 --policy lfu:16 --policy lfu:32 --policy lfu:64 --policy lfu:128 --policy lfu:350 \
  --policy mixture --policy default --policy pairs
plot large --synthetic 3000 --layers 0-7 --skip 200 "${large[@]}" "${few[@]}"
both large-first-come --synthetic 3000 --skip 1500 --cache 1.0417% --cache 8 --cache 16.7% \
  --policy fill --policy lru --policy mixture --policy default --quota equal --quota first-come
both large-profile --synthetic 3000 --train-split 0.5 --cache 8 --cache 16.7% --policy static \
  --policy default
change=(--synthetic 512 --seed 1 --seed 2 --seed 3 --cache 62 --cache 128 --over-time 8 --skip 512
  --period 512 --policy lru --policy lfu:350 --policy mixture --policy default)
both large-topics "${change[@]}"
plot large-topics "${change[@]}"

# Nothing here was looked at when the default was made: another made-up text, 16 of its layers.
both large-other --synthetic 1500 --seed 2 --layers 0-15 --skip 200 "${large[@]}" --policy lru --policy mixture \
  --policy default --policy pairs
both large-other-best --synthetic 1500 --seed 2 --layers 0-15 --skip 200 "${large[@]}" --admission instant \
  --policy lfu:8 --policy lfu:32 --policy lfu:128 --policy lfu:350

"$2/bench/policy_bench" --quotas demo.trace > demo-quotas.txt
"$2/bench/foresight_bench" demo.trace "$source/tests/data/demo/heldout_ids.npy" > foresight.txt
rm demo.trace
