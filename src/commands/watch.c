/* watch.c - trireme watch OUTPUT ...: runs seen from any node, by what they write; live on a terminal. */
#include "base/print.h"
#include "comm/runtime.h"
#include "commands.h"
#include "look/look.h"

enum { LOOK_EVERY_S = 2 }; /* chosen: a step takes longer, mostly */

/* One look, in a pipe or as JSON. */
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
  bool           json;
  double         every_s; /* 0: not given */
  tri_flag_texts metric;
} request;

static tri_status show(const request *q, const char *const *folder, int n, int *code) {
  tri_status   st = TRI_OK;
  tri_look    *l = NULL;
  bool         follows = !q->json && tri_look_can_follow();
  tri_look_how how = {.metric = q->metric.item, .n_metric = q->metric.n};

  tri_look_find_how(false, &how);
  if (!follows && q->every_s > 0)
    TRI_FAIL_DONE(TRI_EARG,
                  "--every %g: runs are looked at again on a terminal only, and there is one look %s; "
                  "leave --every out",
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

static tri_status watch(int argc, char **argv, int *code) {
  request  q = {0};
  tri_flag flag[] = {
      {"--metric", TRI_FLAG_TEXTS, &q.metric, 0, 0, "NAME",
       "the curve of this number of metrics.jsonl; may be given again; default: reward or loss, length, KL, "
       "entropy, ..., those that a run has"},
      {"--every", TRI_FLAG_F64, &q.every_s, 0.1, 3600, "S",
       "seconds between looks on a terminal (default 2)"},
      {"--json", TRI_FLAG_BOOL, &q.json, 0, 0, NULL, "one look, as an object for each run"}};
  bool help;
  int  n;

  TRI_TRY(tri_flags_parse(&tri_command_watch, flag, 3, argc, argv, &n, &help));
  if (help || tri_runtime_env_rank() != 0) return TRI_OK; /* work for one rank */
  tri_need need = {"OUTPUT", n > 0};
  TRI_TRY(tri_flags_need(&tri_command_watch, &need, 1, NULL));
  return show(&q, (const char *const *)argv, n, code);
}

const tri_command tri_command_watch = {
    "watch", "OUTPUT [OUTPUT ...] [--metric NAME ...] [--every S] [--json]",
    "runs live, from any node, by what they write into their output folders: state, pace, curves, warnings, "
    "checkpoints; in a pipe one look (q ends it, r looks now, arrows scroll)",
    watch};
