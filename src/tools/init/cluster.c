/* cluster.c - reads Slurm's partitions, nodes and accounts, for a job file. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster.h"
#include "base/child.h"
#include "base/host_memory.h"
#include "base/visible.h"
#include "comm/slurm.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_BYTES = 1 << 20 }; /* chosen. Enough for some thousand kinds of nodes */

/* ---- fields of a line ---- */

/* Reads at most nine digits and moves *text behind them. -1: there are none. */
static int64_t take_count(const char **text) {
  size_t  n = strspn(*text, "0123456789");
  int64_t v = n && n <= 9 ? strtoll(*text, NULL, 10) : -1;

  *text += n;
  return v;
}

/* Reads a count. It may end in +, as "64+" for at least 64. -1: it is none. */
static int64_t read_count(const char *text) {
  int64_t v = take_count(&text);

  return !text[0] || !strcmp(text, "+") ? v : -1;
}

static bool copy_name(const char *text, size_t n, char out[TRI_CLUSTER_NAME_BYTES]) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-+";

  if (!n || n >= TRI_CLUSTER_NAME_BYTES || strspn(text, plain) < n) return false;
  memcpy(out, text, n);
  out[n] = '\0';
  return true;
}

/* Reads GPUs, such as "gpu:a100:4(S:0-1),nvme:1" for four of type a100. If a node has several types, it gets
 * the first type and the sum. */
static void read_gres(const char *text, tri_cluster_nodes *out) {
  while (*text) {
    size_t      n = strcspn(text, ","), word = strcspn(text, "(,");
    const char *open = memchr(text, '(', n), *close = open ? strchr(open, ')') : NULL, *last = text + word;
    int64_t     count;
    if (close && close >= text + n) n = (size_t)(close - text) + strcspn(close, ","); /* "(S:0,2)" */
    while (last > text && last[-1] != ':') last--;
    count = strtoll(last, NULL, 10);
    if (!strncmp(text, "gpu:", 4) && count > 0 && count <= 1024) {
      if (!out->gpus && last - text > 5) (void)copy_name(text + 4, (size_t)(last - text) - 5, out->gpu);
      out->gpus += count;
    }
    text += n + (text[n] == ',');
  }
}

/* Returns the largest job of "1-infinite", "1-4" or "1". 0: no limit. */
static int64_t read_job_size(const char *text) {
  const char *dash = strchr(text, '-');
  int64_t     most = read_count(dash ? dash + 1 : text);

  return most > 0 ? most : 0;
}

enum { FIELDS = 8 };
#define FORMAT "--format=%P|%a|%l|%s|%D|%c|%m|%G" /* sinfo's, read below */

/* Reads a line into *out. Returns false if it does not describe a partition that takes jobs. */
static bool read_line(char *line, tri_cluster_nodes *out) {
  char  *field[FIELDS];
  size_t n;

  *out = (tri_cluster_nodes){0};
  for (int i = 0; i < FIELDS; i++) {
    field[i] = line;
    n = strcspn(line, i + 1 < FIELDS ? "|" : "");
    if (i + 1 < FIELDS && !line[n]) return false;
    line += n;
    if (i + 1 < FIELDS) *line++ = '\0';
  }
  n = strlen(field[0]);
  out->is_default = n && field[0][n - 1] == '*';
  if (!copy_name(field[0], n - out->is_default, out->partition) || strcmp(field[1], "up") != 0) return false;
  out->longest_s = tri_slurm_seconds(field[2]);
  out->most_nodes = read_job_size(field[3]);
  out->nodes = read_count(field[4]);
  out->cores = read_count(field[5]);
  out->memory_mib = read_count(field[6]);
  if (out->memory_mib == 1) out->memory_mib = 0; /* slurm.conf(5), RealMemory: the default is 1 */
  read_gres(field[7], out);
  return out->longest_s >= 0 && out->nodes > 0 && out->cores > 0 && out->memory_mib >= 0;
}

static bool alike(const tri_cluster_nodes *a, const tri_cluster_nodes *b) {
  return !strcmp(a->partition, b->partition) && !strcmp(a->gpu, b->gpu) && a->gpus == b->gpus &&
         a->cores == b->cores && a->memory_mib == b->memory_mib;
}

static tri_status read_lines(char *text, tri_cluster *c) {
  for (char *line = text, *next; line; line = next) {
    tri_cluster_nodes kind;
    int64_t           i = 0;
    next = strchr(line, '\n');
    if (next) *next++ = '\0';
    if (!read_line(line, &kind)) continue;
    while (i < c->n_kind && !alike(&c->kind[i], &kind)) i++;
    if (i < c->n_kind) {
      c->kind[i].nodes += kind.nodes;
      continue;
    }
    TRI_TRY(TRI_GROW(c->kind, c->cap, c->n_kind + 1));
    c->kind[c->n_kind++] = kind;
  }
  return TRI_OK;
}

/* ---- asking Slurm ---- */

/* Reads the first line of sinfo's error output, without the program's name. "": none. */
static void read_complaint(const tri_child *c, char out[TRI_CLUSTER_WHY_BYTES]) {
  static const char name[] = "sinfo: error: ";
  char              said[TRI_CLUSTER_WHY_BYTES / 2];
  ssize_t           n = read(c->err, said, sizeof said);
  const char       *from = said, *end = n > 0 ? memchr(said, '\n', (size_t)n) : NULL;

  out[0] = '\0';
  if (n <= 0) return;
  if (!end) end = said + n;
  if (end - said > (ptrdiff_t)strlen(name) && !memcmp(said, name, strlen(name))) from += strlen(name);
  tri_visible(from, (size_t)(end - from), "", out, TRI_CLUSTER_WHY_BYTES);
}

/* Returns whether sinfo found no controller, by the words that Slurm 20 to 25 print for failed lookups and
 * connections. */
static bool is_lost(const char *complaint) {
  static const char *const words[] = {"resolve_ctls_from_dns_srv",
                                      "res_nsearch",
                                      "DNS SRV",
                                      "fetch_config",
                                      "configuration source",
                                      "Unable to contact slurm controller",
                                      "Unable to process configuration request"};

  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (strstr(complaint, words[i])) return true;
  return false;
}

/* Writes why nothing is known. */
static void say_why(const char *how, bool whole, const char *complaint, char out[TRI_CLUSTER_WHY_BYTES]) {
  bool failed = whole && how[0] && strcmp(how, "it ended with exit code 0") != 0;

  if (failed && is_lost(complaint)) {
    snprintf(out, TRI_CLUSTER_WHY_BYTES, "sinfo cannot reach a Slurm controller");
    return;
  }

  snprintf(out, TRI_CLUSTER_WHY_BYTES, "sinfo %s%s%.200s",
           !whole   ? "does not answer"
           : failed ? "failed"
                    : "lists no partition in state up",
           complaint[0] ? ": " : "", complaint);
}

/* Answer of a Slurm program. */
typedef struct answer {
  char *text;  /* [ANSWER_BYTES] owned. NULL: the program cannot be started */
  bool  whole; /* it ended in time */
  char  how[TRI_CHILD_HOW_BYTES], complaint[TRI_CLUSTER_WHY_BYTES];
} answer;

static tri_status hear(char *const *argv, double patience_s, answer *a) {
  tri_child  c = {0};
  tri_status st = TRI_OK;

  *a = (answer){0};
  if (tri_child_start(argv, &c) != TRI_OK) return tri_error_clear(), TRI_OK;
  TRI_TRY_DONE(TRI_ALLOC(a->text, ANSWER_BYTES));
  tri_child_close_input(&c);
  a->whole = tri_child_read(&c, patience_s, a->text, ANSWER_BYTES);
  read_complaint(&c, a->complaint);
done:
  tri_child_kill(&c, a->how);
  return st;
}

tri_status tri_cluster_ask(double patience_s, tri_cluster *out) {
  char      *argv[] = {"sinfo", "--noheader", "--exact", FORMAT, NULL};
  answer     a;
  tri_status st = TRI_OK;

  *out = (tri_cluster){0};
  TRI_TRY(hear(argv, patience_s, &a));
  if (!a.text) {
    snprintf(out->why, sizeof out->why, "there is no sinfo here");
    return TRI_OK;
  }
  if (a.whole) TRI_TRY_DONE(read_lines(a.text, out));
  if (!out->n_kind) say_why(a.how, a.whole, a.complaint, out->why);
done:
  TRI_FREE(a.text);
  return st;
}

static bool is_account(const char *name) {
  return name[0] && strspn(name, TRI_CLUSTER_ACCOUNT_LETTERS) == strlen(name);
}

bool tri_cluster_has_account(const char *names, const char *name) {
  size_t n = strlen(name);

  for (const char *at = names; *at; at += strcspn(at, " "), at += strspn(at, " "))
    if (!strncmp(at, name, n) && (!at[n] || at[n] == ',')) return true;
  return false;
}

tri_status tri_cluster_accounts(double patience_s, tri_text *out) {
  const struct passwd *me = getpwuid(geteuid());
  char                 user[TRI_CLUSTER_NAME_BYTES + 8], *next;
  char                *argv[] = {"sacctmgr",     "--noheader", "--parsable2",    "show",
                                 "associations", user,         "format=account", NULL};
  answer               a;
  tri_status           st = TRI_OK;

  if (!me || snprintf(user, sizeof user, "user=%s", me->pw_name) >= (int)sizeof user) return TRI_OK;
  TRI_TRY(hear(argv, patience_s, &a));
  next = a.text && a.whole && !strcmp(a.how, "it ended with exit code 0") ? a.text : NULL;
  for (char *line; (line = strsep(&next, "\n")) != NULL;)
    if (is_account(line) && !tri_cluster_has_account(out->len ? out->data : "", line))
      TRI_TRY_DONE(tri_text_printf(out, "%s%s", out->len ? ", " : "", line));
done:
  TRI_FREE(a.text);
  return st;
}

void tri_cluster_close(tri_cluster *c) {
  TRI_FREE(c->kind);
  *c = (tri_cluster){0};
}

/* ---- choosing ---- */

const tri_cluster_nodes *tri_cluster_find(const tri_cluster *c, const char *partition, bool gpus) {
  const tri_cluster_nodes *best = NULL;

  for (int64_t i = 0; i < c->n_kind; i++) {
    const tri_cluster_nodes *k = &c->kind[i];
    if ((partition && strcmp(partition, k->partition) != 0) || (gpus && !k->gpus)) continue;
    if (!best || (!partition && k->is_default > best->is_default) ||
        ((partition || k->is_default == best->is_default) && k->nodes > best->nodes))
      best = k;
  }
  return best;
}

bool tri_cluster_mixes_gpus(const tri_cluster *c, const char *partition) {
  const char *type = NULL;

  for (int64_t i = 0; i < c->n_kind; i++) {
    const tri_cluster_nodes *k = &c->kind[i];
    if (strcmp(partition, k->partition) != 0 || !k->gpus) continue;
    if (type && strcmp(type, k->gpu) != 0) return true;
    type = k->gpu;
  }
  return false;
}
