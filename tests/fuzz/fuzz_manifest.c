/* fuzz_manifest.c - MANIFEST.json (io/checkpoint/checkpoint_manifest.c) without its last field, the hash. The
 * harness adds a matching hash.
 *
 * Tensors must be inside the file and names inside the folder. The manifest, written and read again, must be
 * the same. */
/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include <inttypes.h>

#include "base/hash.h"
#include "fuzz_case.h"
#include "io/checkpoint/checkpoint_impl.h"
#include "record/record.h"

FUZZ_QUIET_START

static void check_entries(const tri_ckpt_manifest *m) {
  for (int i = 0; i < m->n_entry; i++) {
    const tri_ckpt_entry *e = &m->entry[i];
    FUZZ_CHECK(e->t.ndim >= 1 && e->t.ndim <= TRI_MAX_DIM && e->count > 0 && e->bytes > 0);
    FUZZ_CHECK(e->offset_bytes >= 0 && e->offset_bytes <= m->state_bytes - e->bytes);
  }
  for (int i = 0; i < m->n_file; i++) FUZZ_CHECK(!strchr(m->file[i].name, '/') && m->file[i].name[0] != '.');
}

/* Shows and compares the record, whatever it holds. It must equal itself. */
static void check_record(const char *record) {
  tri_text lines = {0}, differ = {0};

  FUZZ_CHECK(tri_record_lines(record, "  ", &lines) == TRI_OK);
  FUZZ_CHECK(tri_record_differ(record, record, &differ) == TRI_OK && differ.len == 0);
  tri_text_free(&lines);
  tri_text_free(&differ);
}

static void check_written(const tri_ckpt_manifest *m) {
  tri_ckpt_manifest again = {0};
  char             *bytes = NULL;
  size_t            n;

  FUZZ_CHECK(tri_ckpt_manifest_write(m, fuzz_folder()) == TRI_OK);
  FUZZ_CHECK(tri_ckpt_manifest_read(AT_FDCWD, fuzz_folder(), &bytes, &n) == TRI_OK);
  FUZZ_CHECK(tri_ckpt_manifest_parse("again", bytes, n, &again) == TRI_OK);
  FUZZ_CHECK(again.n_entry == m->n_entry && again.n_file == m->n_file && again.step == m->step);
  FUZZ_CHECK(again.state_bytes == m->state_bytes && again.metadata_hash == m->metadata_hash);
  FUZZ_CHECK(again.record.len == m->record.len &&
             (!m->record.len || !memcmp(again.record.data, m->record.data, m->record.len)));
  for (int i = 0; i < m->n_entry; i++)
    FUZZ_CHECK(!strcmp(m->entry[i].t.group, again.entry[i].t.group) &&
               !strcmp(m->entry[i].t.name, again.entry[i].t.name) &&
               m->entry[i].offset_bytes == again.entry[i].offset_bytes);
  tri_host_free((void **)&bytes);
  tri_ckpt_manifest_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  tri_ckpt_manifest m = {0};
  char             *text;
  uint64_t          hash;

  if (n > 1 << 16) return -1;
  n = strnlen((const char *)data, n);
  hash = tri_hash64(data, n, 0);
  FUZZ_CHECK(asprintf(&text, "%.*s\"manifest_hash\": \"%016" PRIx64 "\"\n}\n", (int)n, (const char *)data,
                      hash) >= 0);
  fuzz_begin();
  if (tri_ckpt_manifest_parse("folder", text, strlen(text), &m) == TRI_OK) {
    check_entries(&m);
    check_record(m.record.len ? m.record.data : "");
    FUZZ_CHECK(tri_ckpt_manifest_check_sizes(&m, AT_FDCWD, "/dev/null/none") != TRI_OK);
    tri_error_clear();
    check_written(&m);
  }
  free(text);
  tri_ckpt_manifest_free(&m);
  fuzz_end();
  return 0;
}
