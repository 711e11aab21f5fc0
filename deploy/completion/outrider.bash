# Bash completion of outrider, outrider-verifier, outrider-drafter and outrider-simulate, from what
# their --help says: subcommands, flags, and the values of flags that have a fixed set of them.

# _outrider_flag_line HELP FLAG: the line of HELP that describes FLAG.
_outrider_flag_line() {
  grep -E -m 1 -e "^ +([^ ]+,)?$2([ ,{]|\$)" <<<"$1"
}

_outrider() {
  local word=${COMP_WORDS[COMP_CWORD]} flag=${COMP_WORDS[COMP_CWORD - 1]} last=$COMP_CWORD
  # Readline splits --flag=value into three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $flag == = ]]; then
    flag=${COMP_WORDS[COMP_CWORD - 2]}
  fi

  local -a command=("$1")
  local help commands given
  help=$("${command[@]}" --help 2>/dev/null) || return
  for given in "${COMP_WORDS[@]:1:last-1}"; do
    commands=$(sed -n '/ubcommands:$/,$ s/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$help")
    if [[ $given == [a-z]* ]] && grep -qx -e "$given" <<<"$commands"; then
      command+=("$given")
      help=$("${command[@]}" --help 2>/dev/null) || return
    fi
  done
  commands=$(sed -n '/ubcommands:$/,$ s/^  \([a-z][a-z-]*\) .*/\1/p' <<<"$help")

  if [[ $flag == --* && $word != -* ]]; then
    local line
    line=$(_outrider_flag_line "$help" "$flag")
    if [[ $line =~ [A-Z]+:\{([^}]+)\} ]]; then
      mapfile -t COMPREPLY < <(compgen -W "${BASH_REMATCH[1]//,/ }" -- "$word")
      return
    elif [[ $line =~ $flag\ TEXT || $flag == --config || $flag == --flagfile ]]; then
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return
    elif [[ $line =~ $flag\ [A-Z]+ ]]; then
      return # a number
    fi
  fi
  if [[ $word == -* || -z $commands ]]; then
    commands=$(grep -oE '^ +(-h,)?--[a-z][a-z0-9-]*(,--[a-z][a-z0-9-]*)*' <<<"$help" |
      tr ', ' '\n\n' | grep -e '^--')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
}

complete -F _outrider outrider outrider-verifier outrider-drafter outrider-simulate
