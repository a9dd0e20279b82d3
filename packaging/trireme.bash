# trireme.bash - completes commands, flags, keys of decks, their words, and files for bash.
# SPDX-License-Identifier: BSD-3-Clause
#
# It asks the program once for each command and shell, so it always agrees with --help.

# Prints the commands for "commands", or a command's flags as lines "--flag VALUE".
_trireme_ask() {
  local program=$1 what=$2
  case $what in
  commands) "$program" --help 2>/dev/null | awk '/^commands:/ { on = 1; next } /^$/ { on = 0 } on && /^  [a-z]/ { print $1 }' ;;
  # Turns "section.key: one of a, b, default c" into "section.key a b", and a key without a choice into "section.key".
  keys) "$program" train --options 2>/dev/null | awk '
    function out(  n, word, i) {
      if (key == "") return
      words = ""
      if (match(text, /^one of [^;]*, default /)) {
        n = split(substr(text, 8, RLENGTH - 17), word, ", ")
        for (i = 1; i <= n; i++) words = words " " word[i]
      } else if (text ~ /^true or false/) words = " true false"
      print key words
      key = ""
    }
    /^  [a-z_]+\.[a-z0-9_]+: / { out(); key = $1; sub(/:$/, "", key); text = $0; sub(/^  [^ ]+ /, "", text); next }
    /^  [^ ]/ { text = text " " substr($0, 3); next }
    { out() }
    END { out() }' ;;
  # Reads " --flag VALUE help". The words of a WORD stand behind the last colon of the help. Those of a NAME end at "or FILE".
  *) "$program" "$what" --help 2>/dev/null | awk '
    function out(  at) {
      if (flag == "") return
      if (value == "WORD") { at = match(text, /: [^:]*$/); value = substr(text, at + 2); gsub(/, /, "|", value) }
      if (value == "NAME" && match(text, /: [^:]* or FILE/)) { value = substr(text, RSTART + 2, RLENGTH - 10); gsub(/, /, "|", value) }
      print flag " " value
      flag = ""
    }
    /^  --/ { out(); flag = $1; value = substr($0, 24, 1) != " " || $2 ~ /^[A-Z]/ || $2 ~ /\|/ ? $2 : ""
      if (length($1) + 3 >= 25 || substr($0, length($1) + 4, 1) == " ") value = ""
      if (length($0) < 27) value = $2 # a long flag has a line of its own
      text = substr($0, 26); next }
    /^ / { sub(/^ +/, ""); text = text " " $0 }
    END { out() }' ;;
  esac
}

# Answers of the program, by program and subject.
declare -gA _trireme_said

_trireme_words() { # program, what: into `said`
  local at="$1 $2"
  [[ -n ${_trireme_said[$at]+set} ]] || _trireme_said[$at]=$(_trireme_ask "$1" "$2")
  said=${_trireme_said[$at]}
}

_trireme() {
  local program=${COMP_WORDS[0]} command=${COMP_WORDS[1]-} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
  local said flag value key line
  COMPREPLY=()
  if ((COMP_CWORD == 1)); then
    _trireme_words "$program" commands
    mapfile -t COMPREPLY < <(compgen -W "$said --help --version" -- "$word")
    return
  fi
  # bash splits section.key=value into three words.
  if [[ $before == = || $word == = ]]; then
    [[ $word == = ]] && word='' key=$before || key=${COMP_WORDS[COMP_CWORD - 2]}
    _trireme_words "$program" keys
    while read -r line; do
      [[ $line == "$key "* ]] && mapfile -t COMPREPLY < <(compgen -W "${line#* }" -- "$word")
    done <<<"$said"
    ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  fi
  # Completes the metrics in the last line of a run's metrics.jsonl. Runs are folders.
  if [[ $command == watch && $before == --metric ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(tail -q -n 1 -- "${COMP_WORDS[2]}/metrics.jsonl" 2>/dev/null |
      grep -o '"[a-zA-Z0-9_]*": [-0-9n]' | cut -d '"' -f 2 | grep -vx step)" -- "$word")
    return
  fi
  _trireme_words "$program" "$command"
  while read -r flag value; do
    [[ $flag == "$before" && -n $value ]] || continue
    [[ $value =~ ^[a-z0-9].*\| ]] && mapfile -t COMPREPLY < <(compgen -W "${value//|/ }" -- "$word")
    ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$word")
    return
  done <<<"$said"
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(cut -d ' ' -f 1 <<<"$said")" -- "$word")
    return
  fi
  if [[ $command =~ ^(train|plan|doctor|bench|reward)$ ]] && ((COMP_CWORD > 2)); then
    _trireme_words "$program" keys
    mapfile -t COMPREPLY < <(compgen -S = -W "$(cut -d ' ' -f 1 <<<"$said")" -- "$word")
    ((${#COMPREPLY[@]})) && compopt -o nospace 2>/dev/null
  fi
  [[ $command == @(watch|report) ]] && mapfile -t COMPREPLY < <(compgen -d -- "$word")
  ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _trireme trireme
