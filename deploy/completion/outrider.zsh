#compdef outrider outrider-verifier outrider-drafter outrider-simulate
# Zsh completion, from what --help says: subcommands and their descriptions, flags, values, files.

_outrider() {
  local -a command=($words[1]) lines
  local help given line flag
  help=$($command --help 2>/dev/null) || return
  for given in $words[2,CURRENT-1]; do
    if [[ $given == [a-z]* && ${help##*ubcommands:} != $help &&
      ${help##*ubcommands:} == *$'\n'"  $given "* ]]; then
      command+=($given)
      help=$($command --help 2>/dev/null) || return
    fi
  done

  flag=$words[CURRENT-1]
  [[ $PREFIX == --*=* ]] && flag=${PREFIX%%=*} && compset -P '*='
  if [[ $flag == --* && $PREFIX != -* ]]; then
    line=${(M)${(f)help}:#( ##|*,)${flag}[ ,\{]*}
    if [[ $line == *[A-Z]:\{*\}* ]]; then
      compadd -- ${(s:,:)${${line#*:\{}%%\}*}}
      return
    elif [[ $line == *"$flag TEXT"* || $flag == --(config|flagfile) ]]; then
      _files
      return
    elif [[ $line == *"$flag "[A-Z]* ]]; then
      return
    fi
  fi
  if [[ $PREFIX != -* && $help == *ubcommands:* ]]; then
    lines=(${(M)${(f)${help##*ubcommands:}}:#  [a-z]*})
    lines=(${${lines##  }/ ##/:})
    _describe command lines
    return
  fi
  lines=(${(M)${(f)help}:# #(-h,)#--[a-z]*})
  lines=(${${${lines## #}#-h,}%%[ ,\{]*})
  compadd -- $lines
}

setopt local_options extended_glob
_outrider "$@"
