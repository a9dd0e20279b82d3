/* tensorboard.h - what metrics.jsonl says as an event file, for TensorBoard. Private to its room. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TENSORBOARD_H
#define TRI_TENSORBOARD_H

#include "metrics.h"

/* FOLDER/events.out.tfevents.NUMBER.trireme, one that counts: its version; a start that takes back what other
 * files have of `step` 0 and later; the deck, a text called "deck"; then an event a line: the scalars of one
 * step at its time_unix_s. A tag is GROUP/NAME: the metric's name is all behind the first /. A value is
 * rounded to float32, which all readers know; null is NaN. Of texts only `alarms` is there. */
typedef struct tri_tensorboard tri_tensorboard;

/* Not collective, rank 0. All that is in metrics.jsonl, already cut back, is taken from it, and becomes a new
 * file with a higher number. Of our older ones the newest is left with its version alone, the others are
 * removed: no step is in two files, and what an older start still writes, nobody reads. Where the disk is
 * full that waits, with a warning. TRI_EFILE: the folder cannot be had, or is a link. lines: path of
 * metrics.jsonl. */
TRI_CHECKED tri_status tri_tensorboard_open(const tri_metrics_board *opt, const char *lines,
                                            tri_tensorboard **out);
/* Not collective. Is a file of ours in the folder, which is no link? */
bool tri_tensorboard_is_there(const char *folder);
/* What still waits is lost, with a warning. */
void tri_tensorboard_close(tri_tensorboard **b);
/* Not collective. A number or a text of the next event; texts that are not shown are left out. */
TRI_CHECKED tri_status tri_tensorboard_add(tri_tensorboard *b, const char *name, double value);
TRI_CHECKED tri_status tri_tensorboard_add_text(tri_tensorboard *b, const char *name, const char *text);
/* Not collective. They are the event of this step, -1: of the one before once more, and the file has it, and
 * all that waited. What cannot be written whole (disk full) is TRI_EFILE and waits for the next call. */
TRI_CHECKED tri_status tri_tensorboard_end(tri_tensorboard *b, int64_t step);

#endif
