/* groups.c - finds a metric's section in the HTML report, its unit and its axis by its name. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "groups.h"

#include "base/text_buffer.h"

#include <string.h>

/* Groups for names missing in the table of metrics, as in runs of another version. The beginning or the end
 * of the name decides. */
static const struct {
  const char      *begin, *end;
  tri_metric_group group;
} other[] = {
    {"eval_", "", TRI_GROUP_EVAL},     {"reward_", "", TRI_GROUP_REWARD}, {"", "loss", TRI_GROUP_LOSS},
    {"", "grad_norm", TRI_GROUP_LOSS}, {"kl_", "", TRI_GROUP_KL},         {"entropy_", "", TRI_GROUP_KL},
    {"", "_tokens", TRI_GROUP_LENGTH}, {"", "_per_s", TRI_GROUP_TIME},    {"mem_", "", TRI_GROUP_MEMORY}};

tri_metric_group tri_html_group_of(const char *name) {
  const tri_metric_row *row = tri_metric_row_find(name);

  for (size_t i = 0; !row && i < sizeof other / sizeof *other; i++)
    if (!strncmp(name, other[i].begin, strlen(other[i].begin)) && tri_ends_with(name, other[i].end))
      return other[i].group;
  return row ? row->group : TRI_GROUP_OTHER;
}

int tri_html_group_order(const char *a, const char *b) {
  const tri_metric_row *row_a = tri_metric_row_find(a), *row_b = tri_metric_row_find(b);

  if (row_a == row_b) return strcmp(a, b);
  if (!row_a || !row_b) return row_a ? -1 : 1;
  return row_a < row_b ? -1 : 1;
}

const char *tri_html_metric_words(const char *name) {
  const tri_metric_row *row = tri_metric_row_find(name);

  return row ? row->meaning : NULL;
}

tri_axis_kind tri_html_metric_kind(const char *name) {
  return tri_ends_with(name, "_bytes") ? TRI_AXIS_BYTES : TRI_AXIS_NUMBER;
}

const char *tri_html_metric_unit(const char *name) {
  static const char *const unit[][2] = {{"bytes_per_s", "bytes per s"},
                                        {"tokens_per_s", "tokens per s"},
                                        {"_per_s", "per s"},
                                        {"_s", "s"},
                                        {"_nats", "nats"},
                                        {"_tokens", "tokens"}};

  for (size_t i = 0; i < sizeof unit / sizeof *unit; i++)
    if (tri_ends_with(name, unit[i][0])) return unit[i][1];
  return !strcmp(name, "tokens") ? "tokens" : "";
}

bool tri_html_metric_may_be_log(const char *name) {
  return tri_ends_with(name, "learning_rate") || tri_ends_with(name, "grad_norm") ||
         tri_ends_with(name, "loss_scale") || strstr(name, "_gap_") != NULL ||
         strstr(name, "perplexity") != NULL;
}

bool tri_html_metric_is_eval(const char *name) { return !strncmp(name, "eval_", 5); }

bool tri_html_metric_is_hidden(const char *name) {
  return !strcmp(name, "step") || !strcmp(name, "time_unix_s");
}

bool tri_html_metric_is_phase(const char *name, const char **phase, int *n) {
  static const char *const none[] = {"step", "unix", "work", "wait", "save_behind", "gpu_slowed"};
  size_t                   length = strlen(name);

  if (strncmp(name, "time_", 5) != 0 || length < 8 || !tri_ends_with(name, "_s")) return false;
  *phase = name + 5;
  *n = (int)length - 7;
  for (size_t i = 0; i < sizeof none / sizeof *none; i++)
    if (strlen(none[i]) == (size_t)*n && !strncmp(*phase, none[i], (size_t)*n)) return false;
  return true;
}
