/* file_kind.c - recognises unsupported files by one table of magic numbers. */
/* SPDX-License-Identifier: BSD-3-Clause */
#include "file_kind.h"

#include <stdbool.h>
#include <string.h>

#define SAVE                                                                                                 \
  ". Load the model with transformers and run model.save_pretrained(FOLDER, safe_serialization=True)"
/* A Python command. README names the modules it needs. */
#define PYTHON(modules, table)                                                                               \
  ". Convert it:\npython3 -c 'import sys, " modules "; " table                                               \
  ".to_json(sys.stdout, orient=\"records\", lines=True)'"
#define FIRST       "sys.argv[1]"
#define CSV         "pandas.read_csv(*(sys.argv[1:] or [sys.stdin])"
#define UTF16(from) "UTF-16, but JSON lines are UTF-8. Convert it:\niconv -f " from " -t UTF-8"

/* The magic numbers are specified by each format. `lines` and `model` are the messages for a file given as
 * JSON lines or as a model file. NULL: the magic number is not checked there. */
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
     "an HDF5 file. Give the folder of a checkpoint, and save a Keras model as safetensors first"},
    {"\3757zXZ", 5, "packed with xz. Unpack it:\nunxz -c", NULL},
    {"BZh", 3, "packed with bzip2. Unpack it:\nbunzip2 -c", NULL},
    {"PK\3\4", 4, "a zip archive. Unpack it:\nunzip -p",
     "a PyTorch file (a zip of pickles), an unsupported format" SAVE},
    {"\x80\x02", 2, NULL, "a PyTorch file (a pickle), an unsupported format" SAVE},
    {"\x80\x04", 2, NULL, "a PyTorch file (a pickle), an unsupported format" SAVE},
    {"GGUF", 4, NULL, "a GGUF file, an unsupported format. Take the model's safetensors"},
    {"\xff\xfe", 2, UTF16("UTF-16"), NULL},
    {"\xfe\xff", 2, UTF16("UTF-16"), NULL},
    {"{\0", 2, UTF16("UTF-16LE"), NULL},
    {"\0{", 2, UTF16("UTF-16BE"), NULL},
    {"version https://git-lfs", 23, "a Git LFS pointer, and the data was never fetched. Run git lfs pull",
     "a Git LFS pointer, not the file itself. Run 'git lfs pull' in its folder, or download the file again"},
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

/* After the [ of a line: says if it begins a list of token ids or an empty list, which may be a line. */
static bool starts_numbers(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t')) p++;
  return p < end && (*p == ']' || *p == '-' || (*p >= '0' && *p <= '9'));
}

/* Returns the end of the first column name of a table, quoted or not. NULL: there is no column name. */
static const char *skip_column(const char *p, const char *end) {
  bool quoted = *p == '"';

  for (p += quoted; p < end && *p != '\n' && *p != (quoted ? '"' : ','); p++)
    if (!quoted && !(*p == ' ' || *p == '_' || *p == '-' || *p == '.' || (*p >= '0' && *p <= '9') ||
                     (*p >= 'A' && *p <= 'Z') || (*p >= 'a' && *p <= 'z')))
      break;
  return quoted && p < end && *p == '"' ? p + 1 : quoted ? NULL : p;
}

/* Recognises column names joined by commas without spaces, or by tabs. No JSON object begins so. */
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
    return "one JSON list, but each line must be one object. Convert it:\njq -c '.[]'";
  if (bytes < end && *bytes != '{') return separated(bytes, end);
  if (bytes == end) return NULL;
  for (bytes++; bytes < end && is_space(*bytes); bytes++)
    if (*bytes == '\n')
      return "JSON over several lines, but each line must be one object. Convert it:\njq -c .";
  return NULL;
}
