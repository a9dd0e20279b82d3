/* version.c - prints the version, the build and the libraries of this program, as lines or as JSON. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "version.h"

#include "about.h"
#include "base/columns.h"
#include "base/host_memory.h"
#include "base/print.h"
#include "comm/runtime.h"
#include "device/device.h"
#include "tools/flags/flags.h"
#include "io/text/json_text.h"

#include <stdio.h>
#include <string.h>

/* ---- lines ---- */

/* Prints the version, and the devices this program was built for. */
static tri_status put_first(tri_text *t) {
  const tri_device_ops *ops;

  TRI_TRY(tri_text_printf(t, "trireme " TRI_VERSION " ("));
  for (int i = 0; (ops = tri_device_at(i)) != NULL; i++)
    TRI_TRY(tri_text_printf(t, "%s%s", i ? ", " : "", ops->name));
  return tri_text_printf(t, ")\n");
}

static tri_status put_library(const tri_about_library *l, tri_text *t) {
  const char *version = l->loaded[0] ? l->loaded : l->built;

  if (tri_about_differs(l))
    TRI_LINE(t, "%-13s %s, built with %s", l->name, version, l->built);
  else
    TRI_LINE(t, "%-13s %s", l->name, version);
  return TRI_OK;
}

static tri_status put_lines(const tri_about *a, tri_text *t) {
  size_t      n = strlen(tri_about_commit);
  const char *plus = n && tri_about_commit[n - 1] == '+' ? ", with changes" : "";

  if (n) TRI_LINE(t, "%-13s %.*s%s", "commit", (int)(plus[0] ? n - 1 : n), tri_about_commit, plus);
  TRI_LINE(t, "%-13s %s, %s, %s", "build", a->type, a->compiler, a->flags);
  TRI_LINE(t, "%-13s %s", "made for", a->made_for);
  TRI_LINE(t, "%-13s %s", "instructions", a->instructions);
  TRI_LINE(t, "%-13s %s, %d of %d hardware thread%s", "cpu", a->cpu[0] ? a->cpu : "not named", a->threads,
           a->threads_online, a->threads_online == 1 ? "" : "s");
  for (int i = 0; i < a->n_gpu; i++) TRI_LINE(t, "%-13s %s", "gpu", a->gpu[i]);
  for (int i = 0; i < a->n_library; i++) TRI_TRY(put_library(&a->library[i], t));
  return TRI_OK;
}

/* ---- JSON ---- */

/* Writes null for "". */
static tri_status put_text(tri_text *t, const char *before, const char *text) {
  TRI_TRY(tri_text_put(t, before, strlen(before)));
  return text[0] ? tri_json_put_string(t, text, strlen(text)) : tri_text_put(t, "null", 4);
}

static tri_status put_json_devices(tri_text *t) {
  const tri_device_ops *ops;

  for (int i = 0; (ops = tri_device_at(i)) != NULL; i++)
    TRI_TRY(put_text(t, i ? ", " : ", \"devices\": [", ops->name));
  return tri_text_printf(t, "]");
}

static tri_status put_json_machine(const tri_about *a, tri_text *t) {
  TRI_TRY(put_text(t, ", \"instructions\": ", a->instructions));
  TRI_TRY(put_text(t, ", \"cpu\": {\"model\": ", a->cpu));
  TRI_TRY(tri_text_printf(t, ", \"threads\": %d, \"threads_online\": %d}, \"gpus\": [", a->threads,
                          a->threads_online));
  for (int i = 0; i < a->n_gpu; i++) TRI_TRY(put_text(t, i ? ", " : "", a->gpu[i]));
  return tri_text_printf(t, "]");
}

static tri_status put_json(const tri_about *a, tri_text *t) {
  TRI_TRY(put_text(t, "{\"version\": ", TRI_VERSION));
  TRI_TRY(put_json_devices(t));
  TRI_TRY(put_text(t, ", \"commit\": ", tri_about_commit));
  TRI_TRY(put_text(t, ", \"build\": {\"type\": ", a->type));
  TRI_TRY(put_text(t, ", \"compiler\": ", a->compiler));
  TRI_TRY(put_text(t, ", \"flags\": ", a->flags));
  TRI_TRY(put_text(t, ", \"made_for\": ", a->made_for));
  TRI_TRY(tri_text_printf(t, "}"));
  TRI_TRY(put_json_machine(a, t));
  for (int i = 0; i < a->n_library; i++) {
    const tri_about_library *l = &a->library[i];
    TRI_TRY(put_text(t, i ? ", {\"name\": " : ", \"libraries\": [{\"name\": ", l->name));
    TRI_TRY(put_text(t, ", \"built\": ", l->built));
    TRI_TRY(put_text(t, ", \"loaded\": ", l->loaded));
    TRI_TRY(tri_text_printf(t, "}"));
  }
  return tri_text_printf(t, "]}\n");
}

/* ---- the command line ---- */

static tri_status print(bool verbose, bool json) {
  tri_about *a = NULL;
  tri_text   t = {0};
  tri_status st = TRI_OK;

  TRI_TRY_DONE(TRI_ALLOC(a, 1));
  if (verbose || json) TRI_TRY_DONE(tri_about_gather(a));
  if (!json) TRI_TRY_DONE(put_first(&t));
  if (json)
    TRI_TRY_DONE(put_json(a, &t));
  else if (verbose)
    TRI_TRY_DONE(put_lines(a, &t));
  TRI_TRY_DONE(tri_print(t.data, t.len));
done:
  tri_text_free(&t);
  TRI_FREE(a);
  return st;
}

tri_status tri_version_run(int argc, char **argv) {
  static const tri_command me = {"--version", "[--verbose] [--json]",
                                 "print the version, and the devices it was built for", NULL};
  bool                     verbose = false, json = false, help;
  int                      n;
  const tri_flag           flag[] = {
                {"--verbose", TRI_FLAG_BOOL, &verbose, 0, 0, NULL,
                 "add commit, build, instructions, processors and loaded libraries"},
                {"--json", TRI_FLAG_BOOL, &json, 0, 0, NULL, "print all of that as one JSON object"},
  };

  TRI_TRY(tri_flags_parse(&me, flag, sizeof flag / sizeof *flag, argc, argv, &n, &help));
  if (help) return TRI_OK;
  TRI_TRY(tri_flags_need(&me, NULL, 0, n ? argv[0] : NULL));
  return tri_runtime_env_rank() == 0 ? print(verbose, json) : TRI_OK;
}
