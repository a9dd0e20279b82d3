/* cli_events.h - reads a run's run.jsonl (src/report/README.md) in tests of the whole program. They assert
 * codes, numbers and fields instead of sentences. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_TESTS_CLI_EVENTS_H
#define TRI_TESTS_CLI_EVENTS_H

#include "cli_case.h"

#include <jansson.h>

/* True if the object has all members of the other one with equal values. "numbers" is compared only in the
 * listed ones. */
static inline bool cli_event_has(const json_t *event, const json_t *members) {
  const char *name;
  json_t     *value;

  json_object_foreach((json_t *)(uintptr_t)members, name, value) {
    const json_t *have = json_object_get(event, name);
    if (json_is_object(value) && json_is_object(have) ? !cli_event_has(have, value)
                                                      : !json_equal(have, value))
      return false;
  }
  return true;
}

/* Counts the events of FOLDER/run.jsonl with these members. Each line must be an event of this program. */
static inline int cli_events(const char *folder, const char *members) {
  json_t *want = json_loads(members, 0, NULL);
  char   *line = NULL, path[300];
  size_t  cap = 0;
  ssize_t n;
  int     found = 0;
  FILE   *f;

  snprintf(path, sizeof path, "%s/run.jsonl", folder);
  f = fopen(path, "r");
  if (!f || !json_is_object(want)) fail_msg("%s cannot be read, or %s is no object", path, members);
  while ((n = getline(&line, &cap, f)) > 0) {
    json_t *event = json_loadb(line, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    if (json_integer_value(json_object_get(event, "v")) != 1) fail_msg("%s: no event: %.200s", path, line);
    found += cli_event_has(event, want);
    json_decref(event);
  }
  fclose(f);
  free(line);
  json_decref(want);
  return found;
}

/* The same for the newest start. */
static inline int cli_events_now(const char *folder, const char *members) {
  cli_sh("mkdir -p now_of && tac %s/run.jsonl | sed '/\"event\": \"start\"/q' > now_of/run.jsonl", folder);
  return cli_events("now_of", members);
}

/* Checks that the newest start continued from this checkpoint up to `steps` steps. 0: any number. */
static inline void cli_resumed(const char *folder, const char *checkpoint, int steps) {
  char want[256], all[32] = "";

  if (steps) snprintf(all, sizeof all, ", \"steps\": %d", steps);
  snprintf(want, sizeof want, "{\"event\": \"start\", \"resumed_from\": \"%s\"%s}", checkpoint, all);
  if (cli_events_now(folder, want) != 1) fail_msg("the newest start of %s has not %s", folder, want);
}

#define ALARM(code) "{\"event\": \"alarm\", \"code\": \"" code "\"}"

#endif
