# first_model.awk - makes the data of first_model.sh, sums of two numbers from 10 to 99 as conversations.
# SPDX-License-Identifier: BSD-3-Clause
#
#   awk -v seed=S -v dir=FOLDER -f first_model.awk
#
# Writes FOLDER/heldout.jsonl (200 or 201 sums, excluded from training with their mirror images) and FOLDER/train.jsonl (all
# other sums, shuffled). Every sum occurs once, in 8100 lines. Prints both counts.
function uniform(n) { state = state * 16807 % 2147483647; return int(state / 2147483647 * n) } # Park, Miller 1988
function message(role, text) { return sprintf("{\"role\": \"%s\", \"content\": \"%s\"}", role, text) }
function line(x, y) {
  return sprintf("{\"prompt\": [%s, %s], \"answer\": \"%d\"}", message("system", "You write sums."), message("user", x " + " y " = ?"), x + y)
}
function shuffle(list, n,  k, j, swap) {
  for (k = 0; k < n; k++) { j = k + uniform(n - k); swap = list[k]; list[k] = list[j]; list[j] = swap }
}
BEGIN {
  state = 1
  for (i = 1; i <= length(seed); i++) state = (state * 10 + substr(seed, i, 1)) % 2147483646 + 1
  for (i = 0; i < 20; i++) uniform(2)
  for (i = 10; i < 100; i++) for (j = 10; j <= i; j++) pair[n++] = i " " j
  shuffle(pair, n)
  for (k = 0; k < n; k++) { # a sum and its mirror image stay together
    split(pair[k], part, " ")
    if (held < 200) { held_out[held++] = line(part[1], part[2]); if (part[1] != part[2]) held_out[held++] = line(part[2], part[1]) }
    else { other[rest++] = line(part[1], part[2]); if (part[1] != part[2]) other[rest++] = line(part[2], part[1]) }
  }
  shuffle(other, rest)
  for (k = 0; k < held; k++) print held_out[k] > (dir "/heldout.jsonl")
  for (k = 0; k < rest; k++) print other[k] > (dir "/train.jsonl")
  printf "%d held-out sums, %d others\n", held, rest
}
