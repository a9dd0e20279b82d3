/* tensorboard.h - writes the content of metrics.jsonl as an event file for TensorBoard. Private to its room.
 * Not collective, all that follow, unless they say Collective. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TENSORBOARD_H
#define TRI_TENSORBOARD_H

#include "metrics.h"

/* The current file is FOLDER/events.out.tfevents.NUMBER.trireme. It holds its version, a start that drops the
 * content of other files from `step` 0 on, and the deck as a text called "deck". Then follows one event per
 * line, with the numbers of one step at its time_unix_s. A tag is GROUP/NAME, and all after the first / is
 * the metric's name. Values are rounded to float32, which all readers support, and null is NaN.
 * `alarms` is the only text included. */
typedef struct tri_tensorboard tri_tensorboard;

/* Not collective, on rank 0. Copies all of metrics.jsonl, already cut back, into a new file with a higher
 * number. The newest older file keeps only its version, and the others are removed. So no step is in two
 * files, and nobody reads the output of an older start that still writes. On a full disk this waits, with a
 * warning. TRI_EFILE: the folder cannot be used, or is a link. `lines` is the path of metrics.jsonl. */
TRI_CHECKED tri_status tri_tensorboard_open(const tri_metrics_board *opt, const char *lines,
                                            tri_tensorboard **out);
/* True if the folder is no link and holds one of our files. */
bool tri_tensorboard_is_there(const char *folder);
/* Data still waiting is lost, with a warning. */
void tri_tensorboard_close(tri_tensorboard **b);
/* Add a number or a text to the next event. Texts that are not shown are ignored. */
TRI_CHECKED tri_status tri_tensorboard_add(tri_tensorboard *b, const char *name, double value);
TRI_CHECKED tri_status tri_tensorboard_add_text(tri_tensorboard *b, const char *name, const char *text);
/* Ends the event for this step, or with -1 for the previous step again, and writes it and all waiting events.
 * If they cannot be written completely (disk full), the result is TRI_EFILE, and they wait for the next
 * call. */
TRI_CHECKED tri_status tri_tensorboard_end(tri_tensorboard *b, int64_t step);

#endif
