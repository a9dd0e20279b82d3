# commit.cmake - the commit of the tree ROOT, as C in the file OUT, which is touched only where it is another.
# SPDX-License-Identifier: BSD-3-Clause
#
# cmake -DROOT=... -DOUT=... -P packaging/commit.cmake    A tree of git's has it, "+" behind it where files differ from it; in a
# source package the file COMMIT says it; else it is empty. A repository around a tree that is not its own counts for nothing.
find_program(GIT git)
set(commit "")
set(top "")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${ROOT} rev-parse --show-toplevel OUTPUT_VARIABLE top ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(top)
  file(REAL_PATH "${top}" top)
  file(REAL_PATH "${ROOT}" root)
endif()
if(top AND top STREQUAL root)
  execute_process(COMMAND ${GIT} --no-optional-locks -C ${ROOT} describe --always --exclude=* --abbrev=12 --dirty=+
    OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
elseif(EXISTS ${ROOT}/COMMIT)
  file(STRINGS ${ROOT}/COMMIT commit LIMIT_COUNT 1)
endif()
if(NOT commit MATCHES "^[0-9a-f]+[+]?$")
  set(commit "")
endif()
set(text "/* commit.c - made by packaging/commit.cmake. */\n#include \"tools/version/about.h\"\n\nconst char tri_about_commit[] = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL text)
  file(WRITE ${OUT} "${text}")
endif()
