/* train_record.c - what computes a run, in its log and its checkpoints; what computed it before. */
#include "record/record.h"
#include "train.h"

#include <string.h>

/* Rank 0. The lines for log.txt. */
static tri_status say(const char *record) {
  tri_text   lines = {0};
  tri_status st = tri_record_lines(record, "  ", &lines);

  if (st == TRI_OK && lines.len) {
    lines.data[lines.len - 1] = 0; /* the last newline */
    tri_log(TRI_LOG_DETAIL, "computed by");
    tri_log_table(TRI_LOG_DETAIL, lines.data);
  }
  tri_text_free(&lines);
  return st;
}

/* Rank 0. A checkpoint of an earlier version has no record, and nothing is said. */
static tri_status compare(const tri_trainer *t, const char *record) {
  tri_text   before = {0}, differ = {0}, said = {0};
  tri_status st = TRI_OK;

  if (!t->run.resume[0]) return TRI_OK;
  TRI_TRY_DONE(tri_ckpt_get_record(t->run.resume, &before));
  if (before.len) TRI_TRY_DONE(tri_record_differ(before.data, record, &differ));
  if (!differ.len) goto done;
  TRI_TRY_DONE(tri_text_printf(&said,
                               "%s was computed otherwise; the bits of this run may differ from those of a "
                               "run that was not interrupted:%s",
                               t->run.resume, differ.data));
  tri_log_lines(TRI_LOG_WARN, said.data);
done:
  tri_text_free(&before);
  tri_text_free(&differ);
  tri_text_free(&said);
  return st;
}

tri_status tri_train_record(tri_trainer *t, const char *record) {
  tri_comm  *world = t->se->comm[TRI_WORLD];
  tri_status st = TRI_OK;

  t->run.record = record;
  if (world->rank == 0) st = say(record);
  if (world->rank == 0 && st == TRI_OK) st = compare(t, record);
  return tri_agree(world, st);
}
