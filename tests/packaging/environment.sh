#!/bin/sh
# environment.sh - checks that the man page names every environment variable read or set by the program and the job files.
# SPDX-License-Identifier: BSD-3-Clause
#
# tests/packaging/environment.sh    Judge: the names in the sources, found by a search for getenv, setenv and texts of this form.
set -eu
here=$(cd "$(dirname "$0")/../.." && pwd)
cd "$here"
# Reads its rows, "NAME ... sentence". NAME_* stands for all variables set by a launcher for its ranks.
page=$(sed -n '/^done <<END$/,/^END$/p' packaging/man.sh)
[ -n "$page" ] || { echo "environment.sh: packaging/man.sh has no rows of variables" >&2; exit 1; }
names=$(
  find src io gpu -name '*.[ch]' | xargs cat | grep -oE '(getenv|setenv)\("[A-Za-z_0-9]+"' | sed 's/.*"\([A-Za-z_0-9]*\)"/\1/'
  find src io gpu -name '*.[ch]' | xargs cat | grep -oE '"(TRI|HF|HUGGINGFACE|OMP|GOMP|KMP|NCCL|UCX|GLOO|CUDA|XDG|LC)_[A-Z_0-9]*[A-Z0-9]"' | tr -d '"'
  find src io gpu -name '*.[ch]' | xargs cat | grep -oiE '"[a-z]+_proxy"' | tr -d '"'
  grep -rhoE '\$\{?TRIREME[A-Z_]*' jobs/*.s* packaging/module | tr -d '${'
)
missing=$(printf '%s\n' "$names" | sort -u | while read -r name; do
  case $name in
  HF_TOKEN) continue ;; # a name of secrets (src/base/mask.c), not read
  SLURM_PMIX_FENCE) ;;
  SLURM_* | PMI_* | PMIX_* | OMPI_*) name=${name%%_*}_'*' ;;
  esac
  printf '%s\n' "$page" | tr -c 'A-Za-z_0-9*\n' ' ' | grep -qF " $name " ||
    printf '%s\n' "$page" | tr -c 'A-Za-z_0-9*\n' ' ' | grep -q "^$(printf %s "$name" | sed 's/\*/[*]/') " || echo "$name"
done | sort -u)
[ -z "$missing" ] || { echo "packaging/man.sh does not name:" $missing >&2; exit 1; }
