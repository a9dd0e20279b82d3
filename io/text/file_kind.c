/* file_kind.c - what a file is that is not JSON lines. */
#include "file_kind.h"

#include <stdbool.h>
#include <string.h>

/* Specified: the magic numbers of each format. */
static const struct {
  const char *magic;
  size_t      n;
  const char *what;
} kind[] = {
    {"PAR1", 4,
     "a Parquet file, not JSON lines; pandas.read_parquet(FILE).to_json(NEW, orient='records', lines=True) "
     "writes some"},
    {"ARROW1", 6, "an Arrow file, not JSON lines; datasets.Dataset.from_file(FILE).to_json(NEW) writes some"},
    {"\xff\xff\xff\xff", 4,
     "an Arrow stream, not JSON lines; datasets.Dataset.from_file(FILE).to_json(NEW) writes some"},
    {"\x89HDF\r\n\x1a\n", 8, "an HDF5 file, not JSON lines"},
    {"\x1f\x8b", 2, "packed with gzip; gunzip -k FILE unpacks it"},
    {"\x28\xb5\x2f\xfd", 4, "packed with zstd; unzstd FILE unpacks it"},
    {"\xfd"
     "7zXZ",
     5, "packed with xz; unxz -k FILE unpacks it"},
    {"BZh", 3, "packed with bzip2; bunzip2 -k FILE unpacks it"},
    {"PK\3\4", 4, "a zip archive; unzip FILE unpacks it"},
    {"\xff\xfe", 2, "UTF-16, JSON lines are UTF-8; iconv -f UTF-16 -t UTF-8 FILE >NEW writes it so"},
    {"\xfe\xff", 2, "UTF-16, JSON lines are UTF-8; iconv -f UTF-16 -t UTF-8 FILE >NEW writes it so"},
    {"{\0", 2, "UTF-16, JSON lines are UTF-8; iconv -f UTF-16LE -t UTF-8 FILE >NEW writes it so"},
    {"\0{", 2, "UTF-16, JSON lines are UTF-8; iconv -f UTF-16BE -t UTF-8 FILE >NEW writes it so"},
    {"version https://git-lfs.github.com/spec/", 40,
     "a Git LFS pointer, the data was never fetched; git lfs pull brings it"},
};

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/* Behind the [ of a list that is itself a line's: token ids, or none. */
static bool starts_numbers(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\t')) p++;
  return p < end && (*p == ']' || *p == '-' || (*p >= '0' && *p <= '9'));
}

const char *tri_file_kind(const char *bytes, size_t n) {
  const char *end = bytes + n;

  for (size_t i = 0; i < sizeof kind / sizeof *kind; i++)
    if (n >= kind[i].n && !memcmp(bytes, kind[i].magic, kind[i].n)) return kind[i].what;
  if (n >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) bytes += 3;
  while (bytes < end && is_space(*bytes)) bytes++;
  if (bytes < end && *bytes == '[' && !starts_numbers(bytes + 1, end))
    return "one JSON list, an object on each line is needed; jq -c '.[]' FILE >NEW writes it so";
  if (bytes == end || *bytes != '{') return NULL;
  for (bytes++; bytes < end && is_space(*bytes); bytes++)
    if (*bytes == '\n')
      return "JSON over several lines, an object on each line is needed; jq -c . FILE >NEW writes it so";
  return NULL;
}
