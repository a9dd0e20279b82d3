/* command_watch.c - trireme watch OUTPUT ...: shows runs from any node by the files they write, live on a
 * terminal. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/clock.h"
#include "base/print.h"
#include "config/config.h"
#include "tools/history/ending.h"
#include "comm/runtime.h"
#include "commands.h"
#include "tools/look/look.h"

#include <sys/stat.h>

enum { LOOK_EVERY_S = 2 }; /* chosen: most steps take longer */

/* Prints the runs once, for a pipe or as JSON. */
static tri_status print(const tri_look *l, const tri_look_how *how, bool json) {
  tri_status st = TRI_OK;
  tri_text   text = {0};

  TRI_TRY_DONE((json ? tri_look_json : tri_look_draw)(l, how, tri_unix_s(), &text));
  TRI_TRY_DONE(tri_print(text.data, text.len));
  TRI_TRY_DONE(tri_look_check(l));
done:
  tri_text_free(&text);
  return st;
}

typedef struct request {
  bool           json, end;
  const char    *tag;
  double         every_s; /* 0 if not given */
  tri_flag_texts metric;
} request;

static tri_status show(const request *q, const char *const *folder, int n, int *code) {
  tri_status   st = TRI_OK;
  tri_look    *l = NULL;
  bool         follows = !q->json && tri_look_can_follow();
  tri_look_how how = {.metric = q->metric.item, .n_metric = q->metric.n};

  tri_look_find_how(false, &how);
  if (!follows && q->every_s > 0)
    TRI_FAIL_DONE(
        TRI_EARG,
        "--every %g: the output repeats on a terminal only, and is printed once %s. Leave --every out",
        q->every_s, q->json ? "with --json" : "in a pipe or with TERM=dumb");
  TRI_TRY_DONE(tri_look_open(folder, n, &l));
  if (follows)
    TRI_TRY_DONE(tri_look_follow(l, &how, q->every_s > 0 ? q->every_s : LOOK_EVERY_S, code));
  else
    TRI_TRY_DONE(print(l, &how, q->json));
done:
  tri_look_close(&l);
  return st;
}

/* ---- for job files ---- */

/* Writes each known fact as a line of a word and its value. */
static tri_status put_ending(const tri_ending *e, tri_text *out) {
  TRI_TRY(tri_text_printf(out, "state %s\n", tri_ending_word(e->state)));
  if (e->exit_code >= 0) TRI_TRY(tri_text_printf(out, "exit_code %lld\n", (long long)e->exit_code));
  if (e->step >= 0) TRI_TRY(tri_text_printf(out, "step %lld\n", (long long)e->step));
  if (e->cause[0]) TRI_TRY(tri_text_printf(out, "cause %s\n", e->cause));
  if (e->rank >= 0) TRI_TRY(tri_text_printf(out, "rank %lld\n", (long long)e->rank));
  return e->node[0] ? tri_text_printf(out, "node %s\n", e->node) : TRI_OK;
}

static tri_status print_ending(const char *folder, const char *tag) {
  tri_text   text = {0};
  tri_ending e;
  tri_status st = tri_ending_read(folder, tag, &e);

  if (st == TRI_OK) st = put_ending(&e, &text);
  if (st == TRI_OK) st = tri_print(text.data, text.len);
  tri_text_free(&text);
  return st;
}

/* Checks --end, which takes one run and no other output flag, and --tag, which needs --end. */
static tri_status check_end(const request *q, int n) {
  if (q->tag && !q->end) TRI_FAIL(TRI_EARG, "--tag belongs to --end");
  if (!q->end) return TRI_OK;
  if (q->json || q->every_s > 0 || q->metric.n)
    TRI_FAIL(TRI_EARG, "--end goes with --tag alone. --json has the same facts under \"end\"");
  if (n != 1) TRI_FAIL(TRI_EARG, "--end takes one run, but %d are given", n);
  return TRI_OK;
}

static tri_status answer(const request *q, const char *const *folder, int n, int *code) {
  TRI_TRY(check_end(q, n));
  return q->end ? print_ending(folder[0], q->tag) : show(q, folder, n, code);
}

/* ---- the command ---- */

static bool is_file(const char *path) {
  struct stat sb;

  return !stat(path, &sb) && S_ISREG(sb.st_mode);
}

/* Watches the run.output of a deck. key=value arguments follow the deck. */
static tri_status watch_deck(const request *q, int n, char **argv, int *code) {
  tri_config cfg = {0};
  tri_text   notes = {0};
  tri_status st = tri_config_load(argv[0], argv + 1, n - 1, &cfg, &notes);

  if (st == TRI_OK) st = answer(q, (const char *const *)&cfg.run.output, 1, code);
  tri_text_free(&notes);
  tri_config_free(&cfg);
  return st;
}

static tri_status watch(int argc, char **argv, int *code) {
  request  q = {0};
  tri_flag flag[] = {
      {"--metric", TRI_FLAG_TEXTS, &q.metric, 0, 0, "NAME",
       "draw the curve of this number of metrics.jsonl. Repeat the flag for more (default reward or loss, "
       "length, KL, entropy and others the run has)"},
      {"--every", TRI_FLAG_F64, &q.every_s, 0.1, 3600, "S",
       "seconds between refreshes on a terminal (default 2)"},
      {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL, "print once, as a JSON object for each run"},
      {"--end", TRI_FLAG_BOOL, &q.end, 0, 0, NULL,
       "print the end of a run's newest start for scripts, one word and value a line. The words are state "
       "(finished, stopped, failed, or open if no end is recorded), exit_code, step, cause, rank and node, "
       "as far as known"},
      {"--tag", TRI_FLAG_TEXT, &q.tag, 0, 0, "NAME",
       "with --end, take the start with this name in the variable TRI_START"}};
  bool help;
  int  n;

  TRI_TRY(tri_flags_parse(&tri_command_watch, flag, 5, argc, argv, &n, &help));
  if (help || tri_runtime_env_rank() != 0) return TRI_OK; /* one rank does the work */
  tri_need need = {"OUTPUT", n > 0};
  TRI_TRY(tri_flags_need(&tri_command_watch, &need, 1, NULL));
  if (is_file(argv[0])) return watch_deck(&q, n, argv, code);
  return answer(&q, (const char *const *)argv, n, code);
}

const tri_command tri_command_watch = {
    "watch", "OUTPUT [OUTPUT ...] | DECK [key=value ...] [--metric NAME ...] [--every S] [--json] [--end]",
    "show runs live, or once in a pipe, from any node with their output folders (state, why a run ended, "
    "pace, curves, warnings, checkpoints). Keys are q to quit, r to refresh, arrows to scroll",
    watch};
