/* train_record.c - writes the record of program and nodes to log and checkpoints, compares it with the
 * previous one, and logs start and end as events. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/notice.h"
#include "comm/halt.h"
#include "family/family.h"
#include "record/record.h"
#include "report/runlog.h"
#include "screen.h"
#include "train_record.h"

#include "base/host_memory.h"
#include "base/log.h"

#include <string.h>

/* On rank 0, writes the record's lines to log.txt. */
static tri_status say(const char *record) {
  tri_text   lines = {0};
  tri_status st = tri_record_lines(record, "  ", &lines);

  if (st == TRI_OK && lines.len) {
    lines.data[lines.len - 1] = 0; /* removes the last newline */
    tri_log(TRI_LOG_DETAIL, "computed by");
    tri_log_table(TRI_LOG_DETAIL, lines.data);
  }
  tri_text_free(&lines);
  return st;
}

/* On rank 0, warns if the checkpoint was computed with another record. A checkpoint of an earlier version has
 * no record, so there is nothing to compare. */
static tri_status compare(const tri_trainer *t, const char *record) {
  tri_text   before = {0}, differ = {0}, said = {0};
  tri_status st = TRI_OK;

  if (!t->run.resume[0]) return TRI_OK;
  TRI_TRY_DONE(tri_ckpt_get_record(t->run.resume, &before));
  if (before.len) TRI_TRY_DONE(tri_record_differ(before.data, record, &differ));
  if (!differ.len) goto done;
  TRI_TRY_DONE(tri_text_printf(
      &said,
      "%s was computed in another way, so the bits of this run may differ from an uninterrupted run:%s",
      t->run.resume, differ.data));
  tri_warn_lines("computed_otherwise", said.data);
done:
  tri_text_free(&before);
  tri_text_free(&differ);
  tri_text_free(&said);
  return st;
}

static tri_status note_start(tri_trainer *t, const char *record) {
  const tri_model_shape *sh = tri_source_shape(t->learner[TRI_POLICY].source);
  tri_shard_plan         p = t->cfg->shard.scope;
  tri_ledger_row        *row = NULL;
  tri_text               loss = {0};
  tri_status             st = TRI_OK;
  tri_runlog_begin       begin = {.record = record,
                                  .algo = t->algo->name,
                                  .step = t->progress.step,
                                  .steps = t->plan.steps,
                                  .model_type = sh->family->model_type,
                                  .dtype = tri_dtype_word(t->cfg->model.dtype),
                                  .parameters = tri_learner_size(&t->learner[TRI_POLICY]),
                                  .layers = sh->L,
                                  .width = sh->C,
                                  .vocabulary = sh->V,
                                  .nodes = t->se->rt.nodes,
                                  .params = tri_shard_scope_name(p.params),
                                  .grads = tri_shard_scope_name(p.grads),
                                  .optimizer = tri_shard_scope_name(p.optim),
                                  .deck = t->run.deck.data,
                                  .resumed_from = t->run.resume};

  if (!t->runlog) return TRI_OK;
  TRI_TRY_DONE(tri_screen_loss(t, &loss));
  TRI_TRY_DONE(tri_ledger_rows(t->se->ledger, &row, &begin.n_memory));
  begin.loss = loss.len ? loss.data : t->algo->loss->name;
  begin.memory = row;
  TRI_TRY_DONE(tri_runlog_start(t->runlog, &begin));
done:
  TRI_FREE(row);
  tri_text_free(&loss);
  return st;
}

static const char *cause_of(const tri_trainer *t) {
  static const char *const word[] = {
      [TRI_HALT_FILE] = "file", [TRI_HALT_TIME] = "time", [TRI_HALT_SIGNAL] = "signal"};
  tri_halt_cause cause = tri_halt_decided(t->halt);

  return cause == TRI_HALT_FILE || cause == TRI_HALT_TIME || cause == TRI_HALT_SIGNAL ? word[cause] : NULL;
}

void tri_train_note_end(const tri_trainer *t, tri_train_end end, tri_status st, int exit_code,
                        bool together) {
  char              words[256] = "";
  bool              stopped = st == TRI_OK && end != TRI_TRAIN_FINISHED;
  tri_runlog_ending e = {.state = TRI_RUNLOG_FINISHED,
                         .step = t->progress.step,
                         .exit_code = exit_code,
                         .open_alarms = words,
                         .rank = together ? -1 : t->se->rt.world_rank,
                         .node = t->se->rt.host};

  if (!t->runlog) return;
  if (t->progress.step > t->progress.first_step) tri_health_words(&t->health, words, sizeof words);
  if (stopped) e.state = TRI_RUNLOG_STOPPED;
  if (stopped) e.cause = cause_of(t);
  if (stopped) e.text = tri_halt_words(t->halt);
  if (st != TRI_OK) e.state = TRI_RUNLOG_FAILED;
  if (st != TRI_OK) e.cause = tri_status_word(st);
  if (st != TRI_OK) e.text = tri_error_message();
  if (st != TRI_OK) e.trace = tri_error_trace();
  tri_runlog_end(t->runlog, &e);
}

void tri_train_note_halt(const tri_trainer *t) {
  tri_runlog_state(t->runlog, "stopping", t->progress.step, cause_of(t), tri_halt_words(t->halt));
}

tri_status tri_train_record(tri_trainer *t, const char *record) {
  tri_comm  *world = t->se->comm[TRI_WORLD];
  tri_status st = TRI_OK;

  t->run.record = record;
  TRI_TRY(tri_agree(world, note_start(t, record)));
  if (world->rank == 0) st = say(record);
  if (world->rank == 0 && st == TRI_OK) st = compare(t, record);
  return tri_agree(world, st);
}
