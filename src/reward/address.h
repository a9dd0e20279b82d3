/* address.h - reads the address of a server from the deck, a file or an environment variable. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ADDRESS_H
#define TRI_ADDRESS_H

#include "reward.h"

enum { TRI_ADDRESS_BYTES = 8192 }; /* chosen: servers refuse longer addresses */

/* Not collective. Appends the address from the row's url, url_file or url_env. The row has exactly one of
 * them. Returns TRI_ECONFIG if the file or variable cannot be used, or has no http or https address. *field
 * gets the field's name. The message never contains the address. */
TRI_CHECKED tri_status tri_address_read(const tri_reward_opt *o, const char **field, tri_text *out);

/* Rows of a reward's table of fields. */
#define TRI_ADDRESS_FIELDS                                                                                   \
  {.name = "url",                                                                                            \
   .unit = "1",                                                                                              \
   .help = "http://HOST:PORT/PATH of a server with OpenRLHF's protocol, a POST for each answer. Give this, " \
           "url_file or url_env. User name, password and query values are masked in all output.",            \
   .value = "URL",                                                                                           \
   .what = "the server's address",                                                                           \
   .must = true,                                                                                             \
   .masks = TRI_REWARD_MASK_URL},                                                                            \
      {.name = "url_file",                                                                                   \
       .unit = "path",                                                                                       \
       .help = "A file with the url in one line, read at the start. It is refused if other users may read "  \
               "or change it (chmod 600).",                                                                  \
       .value = "F",                                                                                         \
       .what = "a file with the server's address",                                                           \
       .masks = TRI_REWARD_MASK_WORDS,                                                                       \
       .instead = "url"},                                                                                    \
  {                                                                                                          \
    .name = "url_env", .unit = "1",                                                                          \
    .help = "Environment variable with the url, on every rank. Names recorded by runs (TRI_, OMP_, NCCL_) "  \
            "are refused.",                                                                                  \
    .value = "NAME", .what = "the variable with the server's address", .masks = TRI_REWARD_MASK_WORDS,       \
    .instead = "url"                                                                                         \
  }

#endif
