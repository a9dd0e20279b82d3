/* file_kind.c - what a file is that is not what was expected: one table of magic numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "file_kind.h"

#include <stdbool.h>
#include <string.h>

#define SAVE                                                                                                 \
  "; load the model with transformers and save it: model.save_pretrained(FOLDER, safe_serialization=True)"
/* A command of Python's, with the modules that README names. */
#define PYTHON(modules, table)                                                                               \
  "; this writes some:\npython3 -c 'import sys, " modules "; " table                                         \
  ".to_json(sys.stdout, orient=\"records\", lines=True)'"
#define FIRST       "sys.argv[1]"
#define CSV         "pandas.read_csv(*(sys.argv[1:] or [sys.stdin])"
#define UTF16(from) "UTF-16, JSON lines are UTF-8; this writes it so:\niconv -f " from " -t UTF-8"

/* Specified: the magic numbers of each format. lines, model: the words where JSON lines or a file of a model
 * was expected; NULL: it is not looked for there. */
static const struct {
  const char *magic;
  size_t      n;
  const char *lines, *model;
} kind[] = {
    {"PAR1", 4, "a Parquet file, not JSON lines" PYTHON("pandas", "pandas.read_parquet(" FIRST ")"), NULL},
    {"ARROW1", 6, "an Arrow file, not JSON lines" PYTHON("pandas", "pandas.read_feather(" FIRST ")"), NULL},
    {"\xff\xff\xff\xff", 4,
     "an Arrow stream, not JSON lines" PYTHON("pyarrow", "pyarrow.ipc.open_stream(open(" FIRST
                                                         ", \"rb\")).read_pandas()"),
     NULL},
    {"\x89HDF\r\n\x1a\n", 8, "an HDF5 file, not JSON lines",
     "an HDF5 file; a checkpoint is given by its folder, a Keras model must be saved as safetensors first"},
    {"\3757zXZ", 5, "packed with xz; this unpacks it:\nunxz -c", NULL},
    {"BZh", 3, "packed with bzip2; this unpacks it:\nbunzip2 -c", NULL},
    {"PK\3\4", 4, "a zip archive; this unpacks it:\nunzip -p",
     "a PyTorch file (a zip of pickles), which is not read" SAVE},
    {"\x80\x02", 2, NULL, "a PyTorch file (a pickle), which is not read" SAVE},
    {"\x80\x04", 2, NULL, "a PyTorch file (a pickle), which is not read" SAVE},
    {"GGUF", 4, NULL, "a GGUF file, which is not read; take the model's safetensors"},
    {"\xff\xfe", 2, UTF16("UTF-16"), NULL},
    {"\xfe\xff", 2, UTF16("UTF-16"), NULL},
    {"{\0", 2, UTF16("UTF-16LE"), NULL},
    {"\0{", 2, UTF16("UTF-16BE"), NULL},
    {"version https://git-lfs", 23, "a Git LFS pointer, the data was never fetched; git lfs pull brings it",
     "a Git LFS pointer, not the file itself; run 'git lfs pull' in its folder, or download the file again"},
};
enum { N_KIND = sizeof kind / sizeof *kind };

static bool starts(const char *bytes, size_t n, int k) {
  return n >= kind[k].n && !memcmp(bytes, kind[k].magic, kind[k].n);
}

const char *tri_model_kind(const char *bytes, size_t n) {
  for (int k = 0; k < N_KIND; k++)
    if (kind[k].model && starts(bytes, n, k)) return kind[k].model;
  return NULL;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Behind the [ of a list that is itself a line's: token ids, or none. */
static bool starts_numbers(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t')) p++;
  return p < end && (*p == ']' || *p == '-' || (*p >= '0' && *p <= '9'));
}

/* Where the first name of a line's columns ends, in quotes or without; NULL: it begins with none. */
static const char *skip_column(const char *p, const char *end) {
  bool quoted = *p == '"';

  for (p += quoted; p < end && *p != '\n' && *p != (quoted ? '"' : ','); p++)
    if (!quoted && !(*p == ' ' || *p == '_' || *p == '-' || *p == '.' || (*p >= '0' && *p <= '9') ||
                     (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z')))
      break;
  return quoted && p < end && *p == '"' ? p + 1 : quoted ? NULL : p;
}

/* Names of columns, joined by commas without spaces or by tabs: no object of JSON begins so. */
static const char *separated(const char *p, const char *end) {
  const char *at = skip_column(p, end);

  if (!at || at == p || at + 1 >= end || at[1] == ' ' || at[1] == '\n') return NULL;
  if (*at == '\t') return "a table with tabs, not JSON lines" PYTHON("pandas", CSV ", sep=\"\\t\")");
  if (*at != ',') return NULL;
  return "a CSV file, not JSON lines" PYTHON("pandas", CSV ")");
}

const char *tri_lines_kind(const char *bytes, size_t n) {
  const char *end = bytes + n;

  for (int k = 0; k < N_KIND; k++)
    if (kind[k].lines && starts(bytes, n, k)) return kind[k].lines;
  if (n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) bytes += 3;
  while (bytes < end && is_space(*bytes)) bytes++;
  if (bytes < end && *bytes == '[' && !starts_numbers(bytes + 1, end))
    return "one JSON list, an object on each line is needed; this writes it so:\njq -c '.[]'";
  if (bytes < end && *bytes != '{') return separated(bytes, end);
  if (bytes == end) return NULL;
  for (bytes++; bytes < end && is_space(*bytes); bytes++)
    if (*bytes == '\n')
      return "JSON over several lines, an object on each line is needed; this writes it so:\njq -c .";
  return NULL;
}
