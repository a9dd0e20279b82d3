# commit.cmake - writes the commit of the tree ROOT, as C, to the file OUT, and touches OUT only if the commit has changed.
# SPDX-License-Identifier: BSD-3-Clause
#
# cmake -DROOT=... -DOUT=... -P packaging/commit.cmake
# In a git tree it is the commit, followed by "+" if files differ from it. In a source archive it is the content of the file COMMIT.
# Otherwise it is empty. A git repository around the tree does not count.
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
