/* address.h - the address of a server: in the deck, in a file of its own, or in a variable of the
 * environment. */
/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TRI_ADDRESS_H
#define TRI_ADDRESS_H

#include "reward.h"

enum { TRI_ADDRESS_BYTES = 8192 }; /* chosen: of an address; servers refuse longer ones */

/* Not collective. The address that a row's url, url_file or url_env gives, of which it has one. TRI_ECONFIG:
 * the file or variable cannot be used, or has no address of http or https; *field is the field's name. The
 * message never has the address. */
TRI_CHECKED tri_status tri_address_read(const tri_reward_opt *o, const char **field, tri_text *out);

/* Rows of a reward's fields. */
#define TRI_ADDRESS_FIELDS                                                                                   \
  {.name = "url",                                                                                            \
   .unit = "1",                                                                                              \
   .help = "http://HOST:PORT/PATH of a server with OpenRLHF's contract: a POST for each answer. Give this, " \
           "url_file or url_env. A name, password and query values are masked wherever the program writes "  \
           "them.",                                                                                          \
   .value = "URL",                                                                                           \
   .what = "the server's address",                                                                           \
   .must = true,                                                                                             \
   .masks = TRI_REWARD_MASK_URL},                                                                            \
      {.name = "url_file",                                                                                   \
       .unit = "path",                                                                                       \
       .help = "A file with the url in one line, read as the run starts; refused where other users may "     \
               "read or change it (chmod 600).",                                                             \
       .value = "F",                                                                                         \
       .what = "a file with the server's address",                                                           \
       .masks = TRI_REWARD_MASK_WORDS,                                                                       \
       .instead = "url"},                                                                                    \
  {                                                                                                          \
    .name = "url_env", .unit = "1",                                                                          \
    .help = "The environment variable that holds the url, on every rank. Names that a run records (TRI_, "   \
            "OMP_, NCCL_) are refused.",                                                                     \
    .value = "NAME", .what = "the variable that holds the server's address", .masks = TRI_REWARD_MASK_WORDS, \
    .instead = "url"                                                                                         \
  }

#endif
