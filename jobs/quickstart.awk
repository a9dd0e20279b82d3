# quickstart.awk - makes the demonstration's data, sums and differences of numbers 0..99 and a sloppy teacher's answers to them.
# SPDX-License-Identifier: BSD-3-Clause
#
#   awk -v seed=S -v lines=N -v dir=FOLDER -f quickstart.awk
#
# It writes these files to FOLDER, and prints the share of wrong demonstrations. Answers have their lowest digit first.
#   heldout.jsonl                             problems excluded from both phases with their mirror images
#   prompts.jsonl                             all other problems with the right answers
#   demos.jsonl                               N demonstrations on these, over half of them with a forgotten carry or borrow
#   pairs.jsonl, heldout_pairs.jsonl          a right and a wrong answer (the teacher's, a near miss, another's, nonsense)
#   labelled.jsonl, heldout_labelled.jsonl    one of the two answers and the label, right or wrong
function uniform(n) { state = state * 16807 % 2147483647; return int(state / 2147483647 * n) } # Park, Miller 1988
function reversed(v,  text, out, i) { text = v ""; for (i = length(text); i; i--) out = out substr(text, i, 1); return out }
function right(i) { return reversed(op[i] == "+" ? a[i] + b[i] : a[i] - b[i]) }
function sloppy(i,  tens_a, tens_b) {
  tens_a = int(a[i] / 10); tens_b = int(b[i] / 10)
  if (op[i] == "+") return reversed((tens_a + tens_b) % 10 * 10 + (a[i] + b[i]) % 10)
  return reversed((tens_a - tens_b) * 10 + (a[i] % 10 - b[i] % 10 + 10) % 10)
}
function digits(n,  text) { while (n-- > 0) text = text uniform(10); return text }
function mistake(i,  answer, text, at, kind) { # many kinds, so that a reward model sees all of them in training
  answer = right(i)
  do {
    kind = uniform(8); at = 1 + uniform(length(answer)); text = answer
    if (kind == 0) text = sloppy(i)
    if (kind == 1 || kind == 2) text = substr(answer, 1, at - 1) uniform(10) substr(answer, at + 1)
    if (kind == 3) text = substr(answer, 1, at - 1)
    if (kind == 4) text = answer digits(1 + uniform(5 - length(answer)))
    if (kind == 5) text = right(uniform(n_problem))
    if (kind == 6) text = digits(uniform(6))
    if (kind == 7) text = substr(answer, 1, at - 1) "-" substr(answer, at)
  } while (text == answer || length(text) > 5)
  return text
}
function pair(i) { return line(i, "chosen", right(i) "\", \"rejected\": \"" mistake(i)) }
function labelled(i,  good, text) {
  good = uniform(2); text = line(i, "completion", good ? right(i) : mistake(i))
  return substr(text, 1, length(text) - 1) ", \"label\": " (good ? "true" : "false") "}"
}
function problem(x, y, sign) { a[n_problem] = x; b[n_problem] = y; op[n_problem++] = sign }
function line(i, field, text) { return sprintf("{\"prompt\": \"%d%s%d=\", \"%s\": \"%s\"}", a[i], op[i], b[i], field, text) }

BEGIN {
  state = 1; n_problem = 0
  for (i = 1; i <= length(seed); i++) state = (state * 10 + substr(seed, i, 1)) % 2147483646 + 1
  for (i = 0; i < 20; i++) uniform(2)
  for (i = 0; i < 100; i++) for (j = 0; j <= i; j++) { key[n++] = i " " j " +"; key[n++] = i " " j " -" }
  for (k = 0; k < n; k++) { # shuffles. A sum and its mirror image stay together, and the first 600 are held out
    j = k + uniform(n - k); swap = key[j]; key[j] = key[k]; key[k] = swap
    split(key[k], part, " ")
    if (n_problem < 600) held = -1
    else if (held < 0) held = n_problem
    problem(part[1], part[2], part[3])
    if (part[3] == "+" && part[1] != part[2]) problem(part[2], part[1], part[3])
  }
  for (i = 0; i < held; i++) print line(i, "answer", right(i)) > (dir "/heldout.jsonl")
  for (i = held; i < n_problem; i++) {
    print line(i, "answer", right(i)) > (dir "/prompts.jsonl")
    if (right(i) == sloppy(i)) easy[n_easy++] = i; else hard[n_hard++] = i
  }
  for (k = 0; k < lines; k++) {
    i = uniform(100) < 75 ? hard[uniform(n_hard)] : easy[uniform(n_easy)]
    answer = uniform(100) < 70 ? sloppy(i) : right(i)
    wrong += answer != right(i)
    print line(i, "completion", answer) > (dir "/demos.jsonl")
  }
  for (i = 0; i < held; i++) print pair(i) > (dir "/heldout_pairs.jsonl")
  for (k = 0; k < 6 * (n_problem - held); k++) print pair(held + k % (n_problem - held)) > (dir "/pairs.jsonl")
  for (i = 0; i < held; i++) print labelled(i) > (dir "/heldout_labelled.jsonl")
  for (k = 0; k < 2 * (n_problem - held); k++) print labelled(held + k % (n_problem - held)) > (dir "/labelled.jsonl")
  printf "%d held-out problems, %d others, %d demonstrations, %.0f %% of them wrong\n", held, n_problem - held, lines, 100 * wrong / lines
}
