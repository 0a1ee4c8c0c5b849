import { argumentCases, optionCases, pathPattern, quote } from './bash.ts';
import type { CompletedCommand, CompletedValue } from './command-model.ts';

interface Described {
  readonly name: string;
  readonly description: string;
}
const items = (all: readonly Described[]) => all.map(({ name, description }) => quote(`${name}:${description}`)).join(' ');
const assignments = ({ words, paths }: CompletedValue) => `values=(${words.map(quote).join(' ')}) paths=${quote(paths ?? '')}`;

/** Returns the function that completes a command line. */
function completer(name: string, commands: readonly CompletedCommand[]): string {
  const ofCommand = commands.map(({ path, subcommands, options }) => {
    const flags = options.flatMap(({ names, description }) => names.map((flag) => ({ name: flag, description })));
    return `    ${quote(path)}) subcommands=(${items(subcommands)}) options=(${items(flags)}) ;;`;
  });
  return `${name}() {
  local at='' option='' word='' paths=''
  local -i index arguments=0
  local -a values subcommands options
  for ((index = 2; index < CURRENT; index++)); do
    word=\${words[index]}
    if [[ -n $option ]]; then option=''; continue; fi
    if [[ $word == -* ]]; then
      [[ $word != *=* ]] && ${name}_value "$at $word" && option=$word
      continue
    fi
    case "\${at:+$at }$word" in
      ${pathPattern(commands)}) at="\${at:+$at }$word" ;;
      *) ((arguments++)) ;;
    esac
  done
  values=() paths=''
  word=\${words[CURRENT]}
  if [[ -z $option && $word == --*=* ]] && ${name}_value "$at \${word%%=*}"; then
    compset -P '*='
    option=$word
  fi
  if [[ -n $option ]]; then
    [[ $option == *=* ]] || ${name}_value "$at $option"
  else
    case "$at" in
${ofCommand.join('\n')}
    esac
    ${name}_argument "$at $arguments"
    if [[ $word == -* ]]; then
      _describe -o option options
      return
    fi
    ((\${#subcommands})) && _describe command subcommands
  fi
  ((\${#values})) && _describe value values
  case "$paths" in
    files) _files ;;
    directories) _files -/ ;;
  esac
}
`;
}

/** Returns a script for zsh, to be loaded or to be placed into a directory of fpath. */
export function zshScript(program: string, commands: readonly CompletedCommand[]): string {
  const name = `_${program}`;
  return `#compdef ${program}
# zsh completion of ${program}. Load it with: source <(${program} completion zsh), or write it to a directory of fpath as ${name}
${name}_value() { # sets values and paths, and returns 1 if the option takes no value
  case "$1" in
${optionCases(commands, assignments)}
    *) return 1 ;;
  esac
}
${name}_argument() {
  case "$1" in
${argumentCases(commands, assignments)}
  esac
}
${completer(name, commands)}# loaded by source, or by the completion system as a function
if [[ \${funcstack[1]} == ${name} ]]; then ${name} "$@"; else compdef ${name} ${program}; fi
`;
}
