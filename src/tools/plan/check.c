/* check.c - finds all errors in a deck and its files at once (trireme train --check). */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"
#include "base/log.h"
#include "train/save.h"
#include "train/screen.h"
#include "train/train.h"

#include <string.h>

static void say_data(const char *key, const tri_dataset *d) {
  const tri_data_stats *s = d ? tri_dataset_stats(d) : NULL;

  if (s)
    tri_log(TRI_LOG_INFO, "%s: %lld example%s in %lld line%s, the longest of %d tokens", key,
            (long long)tri_dataset_count(d), tri_dataset_count(d) == 1 ? "" : "s", (long long)s->n_line,
            s->n_line == 1 ? "" : "s", s->longest);
}

/* Logs lines, each of which ends with a newline. */
static void say_lines(tri_text *lines) {
  if (!lines->len) return;
  lines->data[--lines->len] = 0;
  tri_log_lines(TRI_LOG_INFO, lines->data);
}

static tri_status check_tensors(const tri_trainer *t) {
  for (int i = 0; i < TRI_ROLE_COUNT; i++) {
    const tri_learner *l = &t->learner[i];
    if (!l->model) continue;
    TRI_TRY(tri_error_note(
        tri_learner_has_adapters(t, l)
            ? tri_source_check_lora(l->source, l->from, tri_model_params(l->model), tri_learner_params(l))
            : tri_source_check(l->source, l->from, tri_learner_params(l)),
        t->run.errors));
  }
  return TRI_OK;
}

/* Number of ranks, from --ranks or else from the launcher. */
typedef struct ranks {
  bool asked;
  int  all, here; /* on one machine */
  bool elsewhere; /* the run is for other machines, so this machine's facts are not reported. Only errors and
                   * warnings are */
  tri_show_learned show; /* lines of data to print */
} ranks;

/* Reports a shortage of this machine. It is a warning if the run is only asked about with --ranks, because
 * the job's nodes may have more. */
static tri_status note_machine(tri_status st, const ranks *n, tri_errors *errors) {
  tri_errors note = {0};

  if (!n->asked) return tri_error_note(st, errors);
  TRI_TRY(tri_error_note(st, &note));
  if (note.n && !n->elsewhere) {
    tri_log(TRI_LOG_WARN, "checked on this machine (the nodes of a job may have more):");
    say_lines(&note.text);
  }
  tri_errors_free(&note);
  return TRI_OK;
}

/* A CPU build refuses "cuda". A CUDA build accepts it on a machine without a GPU. */
static tri_status check_device(const char *device, tri_errors *errors) {
  if (!strcmp(device, "auto")) return TRI_OK;
  TRI_TRY(tri_error_note(tri_error_about(tri_device_check(device), "run.device"), errors));
  if (strcmp(device, tri_device_host()) && tri_device_find(device))
    tri_log(TRI_LOG_WARN,
            "run.device: %s: memory and batches are planned for the CPU here. trireme plan plans for GPUs",
            device);
  return TRI_OK;
}

static tri_status check_collectives(const char *device) {
  return tri_comm_check(strcmp(device, "auto") ? device : tri_device_auto());
}

/* Logs the checkpoint from which the run would resume. */
static void say_resume(const tri_trainer *t) {
  int64_t done = t->run.resume[0] ? tri_ckpt_step(tri_source_checkpoint(t->learner[TRI_POLICY].source)) : 0;

  if (t->run.resume[0] && done >= t->plan.steps)
    tri_screen_idle(t, done);
  else if (t->run.resume[0])
    tri_log(TRI_LOG_INFO, "resumes from %s, after step %lld of %lld", t->run.resume, (long long)done,
            (long long)t->plan.steps);
}

/* Ranks that do not fill their nodes, or that no model can be divided among, are an error. The rest is then
 * checked as for one node, with a whole model on each rank. */
static tri_status open_session(const tri_config *cfg, const ranks *n, tri_errors *errors, tri_session *se) {
  tri_session_opt opt = {.device = tri_device_host(),
                         .ranks_per_node = (int)cfg->run.ranks_per_node,
                         .threads = (int)cfg->run.threads,
                         .tensor = (int)cfg->shard.tensor_parallel_size};
  int64_t         before = errors->n;

  TRI_TRY(tri_error_note(tri_session_pretend(&opt, n->all, n->here, se), errors));
  if (errors->n == before) return TRI_OK;
  opt.ranks_per_node = n->all;
  opt.tensor = 1;
  return tri_session_pretend(&opt, n->all, n->here, se);
}

/* Writes a checkpoint as a trial, as the run writes one. If the plan has errors its size is not known. */
static tri_status rehearse(tri_trainer *t, bool is_planned, tri_errors *errors) {
  if (!is_planned) TRI_TRY(tri_errors_miss(errors, "space for checkpoints"));
  if (!t->run.may_write) return TRI_OK;
  return tri_error_note(is_planned ? tri_save_rehearse(t) : tri_ckpt_rehearse(t->run.folder, NULL, 0),
                        errors);
}

/* Checks everything behind the keys in a pretended session. */
static tri_status check_run(const tri_config *cfg, const ranks *n, tri_errors *errors) {
  tri_session se = {0};
  tri_trainer t = {0};
  tri_status  st = TRI_OK;
  char        device[TRI_CONFIG_WORD_BYTES];
  int64_t     before;
  bool        is_planned;

  tri_config_choose(cfg);
  tri_config_word("run.device", cfg->run.device, device);
  TRI_TRY_DONE(check_device(device, errors));
  TRI_TRY_DONE(tri_error_note(check_collectives(device), errors));
  TRI_TRY_DONE(open_session(cfg, n, errors, &se));
  TRI_TRY_DONE(note_machine(tri_session_check_threads(&se), n, errors));
  before = errors->n;
  TRI_TRY_DONE(tri_error_note(tri_trainer_plan(cfg, &se, errors, &t), errors));
  is_planned = t.learner[TRI_POLICY].model && errors->n == before;
  if (!t.learner[TRI_POLICY].model) {
    TRI_TRY_DONE(tri_errors_miss(errors, "tensors, memory"));
    if (!n->elsewhere) st = rehearse(&t, is_planned, errors);
    goto done;
  }
  if (n->show.lines) TRI_TRY_DONE(tri_check_learned(&t, &n->show));
  TRI_TRY_DONE(check_tensors(&t));
  TRI_TRY_DONE(note_machine(tri_session_check_memory(&se), n, errors));
  if (!n->elsewhere) TRI_TRY_DONE(rehearse(&t, is_planned, errors));
  if (errors->n) goto done;
  TRI_TRY_DONE(tri_screen_plan(&t));
  say_data("data.train", t.data);
  say_data("data.eval", t.eval.data ? t.eval.data : t.eval.lines);
  say_resume(&t);
done:
  tri_trainer_close(&t);
  tri_session_leave(&se, st);
  return st;
}

/* Looks for other errors as on one rank, after keys had errors. */
static tri_status look_beside(const tri_config *cfg, tri_errors *errors) {
  tri_session_opt opt = {.device = tri_device_host()};
  tri_session     se = {0};
  tri_trainer     t = {0};
  tri_status      st = tri_errors_miss(errors, "the machine, run.output, batches, memory");

  if (st == TRI_OK) st = tri_session_pretend(&opt, 1, 1, &se);
  if (st == TRI_OK) st = tri_error_note(tri_trainer_look(cfg, &se, errors, &t), errors);
  tri_trainer_close(&t);
  tri_session_leave(&se, st);
  return st;
}

/* With --ranks a node has run.ranks_per_node ranks. Without that key all ranks are on one node. */
static ranks count_ranks(const tri_config *cfg, int64_t asked) {
  int64_t per_node = cfg->run.ranks_per_node;
  ranks   n = {.asked = asked > 0,
               .all = (int)asked,
               .here = (int)(per_node > 0 && per_node < asked ? per_node : asked)};

  if (!n.asked) tri_runtime_env_ranks(&n.all, &n.here);
  return n;
}

/* Fails with the number of errors and the checks that they prevented. */
static tri_status fail_with(const char *path, const tri_errors *errors) {
  bool one = errors->n == 1;

  TRI_FAIL(errors->st, "%s: %lld error%s, listed above%s%s%s", path, (long long)errors->n, one ? "" : "s",
           errors->unseen.len ? ". Not checked because of " : "",
           !errors->unseen.len ? ""
           : one               ? "it: "
                               : "them: ",
           errors->unseen.len ? errors->unseen.data : "");
}

/* Checks the deck as it was read, with the errors of reading. read: the status of reading. If it is not
 * TRI_OK the file is no deck, and nothing else is checked. */
static tri_status check_deck(const char *path, const tri_config *cfg, const ranks *n, tri_text *notes,
                             tri_errors *errors, tri_status read) {
  tri_status st = tri_error_note(read, errors);

  if (st == TRI_OK) tri_config_say_notes(notes);
  if (n->elsewhere) tri_log_mute(TRI_LOG_WARN);
  if (read == TRI_OK) st = errors->n ? look_beside(cfg, errors) : check_run(cfg, n, errors);
  if (n->elsewhere) tri_log_unmute();
  if (st == TRI_OK && errors->n) {
    tri_errors_say(errors);
    st = fail_with(path, errors);
  } else if (st == TRI_OK) {
    tri_log(TRI_LOG_INFO, "%s: no errors found, planned for %d rank%s%s", path, n->all,
            n->all == 1 ? "" : "s", n->all == 1 && !n->asked ? ". --ranks N plans for a job of N ranks" : "");
  }
  tri_text_free(notes);
  tri_errors_free(errors);
  return st;
}

tri_status tri_check(const char *path, char *const *args, int n_args, int64_t asked,
                     const tri_show_learned *show) {
  tri_config cfg = {0};
  tri_text   notes = {0};
  tri_errors errors = {0};
  ranks      n;
  tri_status st = tri_config_load_all(path, args, n_args, &cfg, &notes, &errors);

  n = count_ranks(&cfg, asked);
  n.show = *show;
  st = check_deck(path, &cfg, &n, &notes, &errors, st);
  tri_config_free(&cfg);
  return st;
}

tri_status tri_check_text(const char *name, const char *bytes, size_t n_bytes, int all, int per_node) {
  tri_config cfg = {0};
  tri_text   notes = {0};
  tri_errors errors = {0};
  ranks      n = {.asked = true, .all = all, .here = per_node, .elsewhere = true};
  tri_status st = tri_config_load_text(name, bytes, n_bytes, &cfg, &notes, &errors);

  st = check_deck(name, &cfg, &n, &notes, &errors, st);
  tri_config_free(&cfg);
  return st;
}
