# stages.sh - the jobs of check.sh that check results: tests, ranks, parity, checkpoints, sanitizer. Sourced by it.
# shellcheck shell=bash disable=SC2154,SC2034
# SPDX-License-Identifier: BSD-3-Clause

# ---- the machine ----

# Version of a library the program is linked with, as the library itself reports it.
library_version() { # part of its name, function, "returned" or "stored"
  local path
  path=$(ldd "$bin/trireme" | awk -v n="$1" 'index($1, n) && $3 ~ /^\// { print $3; exit }')
  [[ -n $path ]] || { echo none; return; }
  "$python" - "$path" "$2" "$3" <<'P' 2>/dev/null || basename "$(readlink -f "$path")"
import ctypes, sys
ask = getattr(ctypes.CDLL(sys.argv[1]), sys.argv[2])
number = ctypes.c_int(0)
if sys.argv[3] == "returned":
    ask.restype = ctypes.c_size_t
    number.value = ask()
else:
    ask(ctypes.byref(number))
print(number.value)
P
}

job_machine() {
  local commit code
  commit=${CHECK_COMMIT:-$(git -C "$root" rev-parse --short HEAD 2>/dev/null)}
  [[ -z ${CHECK_COMMIT-} && -n $(git -C "$root" status --porcelain -uno 2>/dev/null) ]] && commit+=" and changes"
  row "date, commit" passed "$(date -u +%FT%TZ), ${commit:-unknown}"
  if command -v nvidia-smi >/dev/null; then
    row GPU passed "$(nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader | head -n 1), CUDA of the driver $(nvidia-smi | sed -n 's/.*CUDA Version: *\([0-9.]*\).*/\1/p')"
  else
    row GPU "not run: no nvidia-smi"
  fi
  row libraries passed "cuBLASLt $(library_version cublasLt cublasLtGetVersion returned), NCCL $(library_version libnccl ncclGetVersion stored), cuDNN $("$bin/trireme" --version --verbose | awk '$1 == "cuDNN" { v = $2 } END { print v ? v : "none" }')"
  write_decks
  run "$bin/trireme" --version
  code=$?
  row "trireme --version" "$(verdict $code)" "$(head -n 1 "$said")"
  TRI_COMM=nccl run "$bin/trireme" train "$work/grpo.yaml" run.device=cuda run.output="$dir/first" train.steps=1
  code=$?
  if ((code == 69)) && grep -qE 'TRI_NCCL|without NCCL' "$said"; then
    run "$bin/trireme" train "$work/grpo.yaml" run.device=cuda run.output="$dir/first" train.steps=1
    code=$?
  else
    touch "$work/has_nccl"
  fi
  row "a first step on the GPU" "$(verdict $code)" "$(tell $code grep -m 1 'collectives: ' "$said")"
  CUDA_VISIBLE_DEVICES='' TRI_EMULATE_DEVICES=0 run "$bin/trireme" train "$work/grpo.yaml" run.device=cuda run.output="$dir/none"
  code=$?
  grep -q 'shows no GPU' "$said" || code="$code, for another reason"
  row "run.device: cuda without a GPU" "$(verdict "$([[ $code = 69 ]]; echo $?)")" "exit code $code, 69 expected: $(grep -m 1 '^trireme:' "$said" | cut -c 1-110)"
}

# Looks for a PyTorch to compare with. The libraries carried with the programs may not suit it, so it tries without them first.
job_python() {
  local prefix
  for prefix in "-u LD_LIBRARY_PATH" "LANG=C"; do
    echo "$prefix" >"$work/python"
    if run_python -c 'import torch, transformers
print("torch", torch.__version__, "CUDA", torch.version.cuda, "transformers", transformers.__version__)
print("sees", "a GPU" if torch.cuda.is_available() else "no GPU")'; then
      if ((!small)) && grep -q 'sees no GPU' "$said"; then break; fi
      row PyTorch passed "$(grep -m 1 '^torch ' "$said")"
      return
    fi
  done
  rm "$work/python"
  row PyTorch "not run: $(grep -q '^sees' "$said" && echo "it sees no GPU" || echo "$python has no torch and transformers")"
}

# Decks with the quickstart's model and sums as data, $work/sft.yaml and $work/grpo.yaml
write_decks() {
  awk -v seed=1 -v lines=4000 -v dir="$work" -f "$root/jobs/quickstart.awk"
  local model="model: {config: $root/inputs/quickstart/config.json, tokenizer: $root/inputs/quickstart/tokenizer.json}"
  cat >"$work/sft.yaml" <<D
run: {output: $work/none, seed: 5, resume: never, threads: 2}
$model
data: {train: $work/demos.jsonl}
algo: {name: sft}
train: {steps: 10, train_batch_size: 32, micro_batch_size: 8, learning_rate: 1e-3, weight_decay: 0.1}
checkpoint: {save_final: false}
D
  cat >"$work/grpo.yaml" <<D
run: {output: $work/none, seed: 5, resume: never, threads: 1}
$model
data: {train: $work/prompts.jsonl}
algo: {name: grpo, num_generations: 4, kl_coef: 0.01, ppo_epochs: 2}
rollout: {rollout_batch_size: 8, max_response_length: 6}
reward: [{name: regex, pattern: "[0-4]"}]
train: {steps: 6, train_batch_size: 16, micro_batch_size: 4, learning_rate: 1e-3}
checkpoint: {save_final: false}
D
  ((small)) && sed -i 's/steps: 10, train_batch_size: 32/steps: 4, train_batch_size: 16/; s/steps: 6,/steps: 3,/' \
    "$work/sft.yaml" "$work/grpo.yaml"
}

# ---- test programs ----

one_module() { # module
  local code row_began
  row_began=$(elapsed)
  if [[ ! -x $bin/test_$1 ]]; then
    row "test_$1" "not run: no $bin/test_$1"
    return
  fi
  if awk -v e="$job_end" -v n="$(elapsed)" 'BEGIN { exit !(e - n < 3) }'; then
    row "test_$1" "not run: time"
    return
  fi
  run "$bin/test_$1"
  code=$?
  row "test_$1" "$(verdict $code)" "$(tell $code cases 1)"
}
# Number of cases the last test program ran on each of its ranks.
cases() { # ranks
  grep -aoE '^\[==========\] [0-9]+ test\(s\) run' "$said" | awk -v r="$1" -v s="$(grep -ac '^\[  SKIPPED \] test_' "$said")" \
    '{ n += $2 } END { print n / r, "cases" (s ? ", " s / r " of them not run" : "") }'
}

# The columns of a part of a weight have the bits of the whole, on which divided generation relies.
job_columns() { one_module linear_columns; }
job_modules() {
  local module at_once=$(($(nproc) / 3)) list
  ((at_once >= 1)) || at_once=1
  list=$(sed -n 's/^set(TRI_\(ANY_DEVICE\|DEVICE\|CUDA\)_MODULES \(.*\))$/\2/p' "$root/tests/CMakeLists.txt")
  for module in $list; do
    [[ $module = comm || $module = linear_columns ]] && continue
    while (($(jobs -rp | wc -l) >= at_once)); do wait -n; done
    one_module "$module" &
  done
  wait
}

nccl_missing() { # communicator, row's name
  [[ $1 != nccl || -e $work/has_nccl ]] && return 1
  row "$2" "not run: the programs were built without NCCL"
}
# Runs a test program on several ranks that share the GPU.
shared() { # row's name, communicator, ranks, program
  local code
  nccl_missing "$2" "$1" && return
  NCCL_DEBUG=VERSION TRI_TEST_COMM=$2 TRI_COMM=$2 ranks "$3" "$bin/$4"
  code=$?
  row "$1" "$(verdict $code)" "$(tell $code cases "$3")$(grep -aom 1 'NCCL version [0-9.+a-z]*' "$said" | sed 's/^/, /')$(grep -am 1 'runs compared' "$said" | sed 's/^/, /')"
}
job_comm() { shared "collectives, $1, $2 ranks" "$1" "$2" test_comm; }
job_store() { shared "parameter store, $1, $2 ranks" "$1" "$2" test_params; }
job_plans() { TRI_TEST_BRIEF=1 TRI_TEST_FILTER=every_plan shared "GRPO under every shard plan, $1, $2 ranks" "$1" "$2" test_train; }

# ---- refusals, and ranks that stop ----

# Runs two ranks over NCCL. Each writes its process id to $dir/pid.RANK and at the end its exit code to $dir/code.RANK. Returns
# after two steps. The many passes per step keep it in a collective of NCCL nearly all the time, not in one of MPI.
start_pair() {
  # shellcheck disable=SC2016
  TRI_COMM=nccl ranks 2 sh -c 'trap "" TERM; d=$0; "$@" & echo $! >"$d/pid.$NCCL_HOSTID"; wait $!
    echo $? >"$d/code.$NCCL_HOSTID"' "$dir" "$bin/trireme" train "$work/sft.yaml" run.device=cuda run.output="$dir/pair" \
    run.threads=1 run.timeout_s=10 train.steps=100000 train.train_batch_size=64 train.micro_batch_size=1 &
  pair=$!
  until [[ -s $dir/pair/metrics.jsonl && $(wc -l <"$dir/pair/metrics.jsonl") -ge 2 ]]; do
    kill -0 $pair 2>/dev/null || return 1
    sleep 0.2
  done
}
stop_pair() { # signal, row's name
  local from code
  rm -rf "$dir/pair" "$dir"/code.*
  start_pair || {
    wait $pair
    code=$?
    row "$2" "$(verdict $((code ? code : 1)))" "the run of two ranks did not begin: exit code $code"
    return
  }
  from=$(elapsed)
  kill "-$1" "$(cat "$dir/pid.rank1")"
  wait $pair
  code=$(cat "$dir/code.rank0" 2>/dev/null)
  [[ $code = 76 ]]
  row "$2" "$(verdict $?)" "the other's exit code is ${code:-unknown}, 76 expected, $(awk -v a="$from" -v b="$(elapsed)" 'BEGIN { printf "%.1f", b - a }') s later"
}

job_refusals() {
  local code
  run env -u TRI_COMM "$mpirun" -n 2 "$bin/trireme" train "$work/grpo.yaml" run.device=cuda run.output="$dir/two"
  code=$?
  ((code == 69)) && grep -qE 'gpus-per-task|same GPU' "$said"
  row "two ranks on one GPU, unasked" "$(verdict $?)" "exit code $code, 69 expected: $(grep -m 1 '^trireme:' "$said" | cut -c 1-100)"
  nccl_missing nccl "a rank that hangs" && { nccl_missing nccl "a rank that is killed"; return; }
  # The launcher would end the other rank itself. Here it must not, because between nodes it may take long.
  export OMPI_MCA_orte_enable_recovery=1
  stop_pair STOP "a rank that hangs (run.timeout_s=10)"
  stop_pair KILL "a rank that is killed"
  unset OMPI_MCA_orte_enable_recovery
}

# ---- parity with the CPU ----

train() { # deck, output folder, further key=value ...
  local deck=$1 output=$2
  shift 2
  run "$bin/trireme" train "$work/$deck.yaml" run.output="$output" "$@"
}
# Compares losses and gradient norms of two runs. Losses of GRPO are sums of terms of both signs around zero, so they are compared
# with 0.1 at least.
compare_runs() { # row's name, folder, folder that judges, bound of losses, bound of norms
  local loss norm
  loss=$(worst "$2/metrics.jsonl" "$3/metrics.jsonl" loss 0.1)
  norm=$(worst "$2/metrics.jsonl" "$3/metrics.jsonl" grad_norm 0.01)
  echo "losses:"; paste <(numbers "$3/metrics.jsonl" loss) <(numbers "$2/metrics.jsonl" loss)
  at_most "$loss" "$4" && at_most "$norm" "$5"
  row "$1" "$(verdict $?)" "losses differ by ${loss:-?} (bound $4), gradient norms by ${norm:-?} (bound $5), $(wc -l <"$2/metrics.jsonl") steps"
}
job_parity() { # dtype
  local loss=1e-4 norm=1e-3 code
  [[ $1 = bf16 ]] && loss=0.02 norm=0.1
  train sft "$dir/cpu" run.device=cpu model.dtype="$1" && train sft "$dir/gpu" run.device=cuda model.dtype="$1"
  code=$?
  if ((code)); then fell "SFT on CPU and GPU, $1" $code; else
    compare_runs "SFT on CPU and GPU, $1" "$dir/gpu" "$dir/cpu" $loss $norm
  fi
  # Both use the same answers. The GPU learns from those drawn by the CPU.
  train grpo "$dir/grpo_cpu" run.device=cpu model.dtype="$1" rollout.save_every=1 &&
    train grpo "$dir/grpo_gpu" run.device=cuda model.dtype="$1" rollout.replay="$dir/grpo_cpu/rollouts" run.sampler=trust
  code=$?
  if ((code)); then fell "GRPO on CPU and GPU, $1" $code; else
    compare_runs "GRPO on CPU and GPU, $1" "$dir/grpo_gpu" "$dir/grpo_cpu" $loss $norm
  fi
}

# ---- sampler and trainer agree to the bit ----

gap_row() { # row's name, folder, exit code
  local gap
  (($3 == 0)) || { fell "$1" "$3"; return; }
  gap=$(numbers "$2/metrics.jsonl" sampler_gap_max_nats | sort -g | tail -n 1)
  if grep -q '"code": "sampler_rescores"' "$2/run.jsonl" && [[ $gap =~ ^[0-9] ]]; then
    row "$1" passed "fell back to rescore, with its warning: largest gap $gap nats"
  else
    [[ $gap = 0 ]]
    row "$1" "$(verdict $?)" "largest gap ${gap:-?} nats, exact, $(wc -l <"$2/metrics.jsonl") steps, gradient norm $(numbers "$2/metrics.jsonl" grad_norm | tail -n 1 | cut -c 1-6)"
  fi
}
write_config() { # file, C L H G F V positions tied: a Qwen2
  printf '{"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": %d, "num_hidden_layers": %d,
 "num_attention_heads": %d, "num_key_value_heads": %d, "intermediate_size": %d, "vocab_size": %d,
 "max_position_embeddings": %d, "tie_word_embeddings": %s, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0,
 "hidden_act": "silu", "eos_token_id": null}\n' "${@:2}" >"$1"
}
write_tokens() { # file, lines, tokens, vocabulary
  awk -v n="$2" -v t="$3" -v v="$4" 'BEGIN { srand(1); for (i = 0; i < n; i++) { printf "{\"tokens\": [";
    for (k = 0; k < t; k++) printf "%s%d", k ? ", " : "", int(rand() * v); print "]}" } }' >"$1"
}
job_exact() {
  local dtype shape="896 24 14 2 4864 151936 512 true"
  for dtype in f32 bf16; do
    train grpo "$dir/$dtype" run.device=cuda model.dtype=$dtype
    gap_row "sampler and trainer, tiny, $dtype" "$dir/$dtype" $?
  done
  ((small)) && shape="64 2 2 1 128 2000 512 true"
  # shellcheck disable=SC2086
  write_config "$dir/config.json" $shape
  write_tokens "$dir/prompts.jsonl" 16 24 2000
  train grpo "$dir/half" run.device=cuda run.threads=0 model.config="$dir/config.json" model.dtype=bf16 train.steps=2 algo.kl_coef=0 \
    data.train="$dir/prompts.jsonl" rollout.max_response_length=$((small ? 8 : 128)) algo.num_generations=8 \
    train.train_batch_size=64 train.learning_rate=1e-5
  gap_row "sampler and trainer, shape of 0.5B, bf16" "$dir/half" $?
}

# ---- parity with PyTorch ----

job_torch_parity() {
  local code what result figure size=()
  [[ -s $work/python ]] || { row "parity with PyTorch" "not run: no PyTorch"; return; }
  ((small)) && size=(--small)
  run_python "$here/torch_parity.py" "$bin/trireme" "$dir" "${size[@]}"
  code=$?
  while IFS='|' read -r _ what result figure; do row "$what" "$result" "$figure"; done < <(grep '^ROW|' "$said")
  ((code == 0)) || fell "parity with PyTorch" $code
}

# ---- checkpoints ----

job_checkpoint() {
  local device other code=0 steps=8 more="model.dtype=f32 train.steps=8 checkpoint.save_steps=4 checkpoint.save_final=true"
  # shellcheck disable=SC2086
  for device in cuda cpu; do
    train sft "$dir/$device" run.device=$device $more || { fell "checkpoints, a run on $device" $?; return; }
  done
  for device in cuda cpu; do
    other=$([[ $device = cuda ]] && echo cpu || echo cuda)
    # shellcheck disable=SC2086
    train sft "$dir/$device-$other" run.device=$other run.resume="$dir/$device/checkpoints/step-00000004" $more
    code=$?
    if ((code)); then fell "stopped on $device, resumed on $other" $code; continue; fi
    sed -i '1,4d' "$dir/$device/metrics.jsonl"
    compare_runs "stopped on $device, resumed on $other" "$dir/$device-$other" "$dir/$device" 1e-4 1e-3
    run "$bin/trireme" inspect "$dir/$device-$other" --verify
    code=$?
    row "  inspect --verify of that" "$(verdict $code)" "$(tell $code)"
  done
  for device in cuda cuda-cpu cpu cpu-cuda; do
    run "$bin/trireme" export "$dir/$device" "$dir/model-$device" --dtype f32 || { fell "export of $device" $?; return; }
  done
  run_python "$here/compare_models.py" "$dir/model-cuda-cpu" "$dir/model-cuda" "$dir/model-cpu-cuda" "$dir/model-cpu"
  code=$?
  if ((code == 69)); then row "states after resuming elsewhere" "not run: no PyTorch"; else
    row "states after resuming elsewhere" "$(verdict $code)" "$(tell $code tail -n 1 "$said")"
  fi
}

# ---- compute-sanitizer ----

job_sanitizer() { # tool, module, cases
  local code complaints program=${SANITIZER:-$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)} name="$1 of test_$2, $3"
  [[ -x $program ]] || { row "$name" "not run: no compute-sanitizer"; return; }
  TRI_TEST_FILTER=$3 run "$program" --tool "$1" --error-exitcode 99 "$bin/test_$2"
  code=$?
  complaints=$(grep -acE '========= +(Invalid|(Error|Warning): Race reported|.*hazard)' "$said")
  if ((complaints)); then
    row "$name" FAILED "$complaints complaints: $(grep -am 1 -E '========= +(Invalid|(Error|Warning): Race reported|.*hazard)' "$said" | tr '|' '/')"
  elif grep -qaE 'Device not supported|not supported on this|terminated before first instrumented' "$said"; then
    row "$name" "not run: $(grep -aom 1 -E 'Device not supported|.*not supported on this.*|.*terminated before first instrumented.*' "$said" | cut -c 1-80)"
  elif ((code == 124 || code == 137)); then
    row "$name" "not run: over its time" "$(grep -ac '^\[       OK' "$said") cases by then, no complaint"
  else
    row "$name" "$(verdict $code)" "$(grep -am 1 -E '========= (Invalid|Error|Warning|Race|Potential|ERROR|RACECHECK)' "$said"), $(cases 1)"
  fi
}
