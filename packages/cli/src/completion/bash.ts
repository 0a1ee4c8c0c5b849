import type { CompletedCommand, CompletedValue } from './command-model.ts';

export const quote = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`;

const assignments = ({ words, paths }: CompletedValue) => `words=${quote(words.join(' '))} paths=${paths ?? ''}`;

/** Returns the cases in which a word of the command line is the value of an option, for bash and zsh. */
export const optionCases = (commands: readonly CompletedCommand[], body: (value: CompletedValue) => string): string =>
  commands
    .flatMap(({ path, options }) =>
      options.flatMap(({ names, value }) =>
        value === undefined ? [] : [`    ${names.map((name) => quote(`${path} ${name}`)).join(' | ')}) ${body(value)} ;;`],
      ),
    )
    .join('\n');

/** Returns the cases of arguments, by the path of the command and the number of arguments before. */
export const argumentCases = (commands: readonly CompletedCommand[], body: (value: CompletedValue) => string): string =>
  commands
    .flatMap(({ path, values, variadic }) =>
      values.map((value, index) => {
        const pattern = variadic && index === values.length - 1 ? `${quote(`${path} `)}*` : quote(`${path} ${index}`);
        return `    ${pattern}) ${body(value)} ;;`;
      }),
    )
    .join('\n');

/** Returns the paths of all commands but the program itself, as a pattern. */
export const pathPattern = (commands: readonly CompletedCommand[]): string =>
  commands.flatMap(({ path }) => (path === '' ? [] : [quote(path)])).join(' | ');

/** Returns a script for bash 4 or newer, which needs no bash-completion. */
export function bashScript(program: string, commands: readonly CompletedCommand[]): string {
  const name = `_${program}`;
  const ofCommand = commands.map(
    ({ path, subcommands, options }) =>
      `    ${quote(path)}) commands=${quote(subcommands.map((each) => each.name).join(' '))} options=${quote(options.flatMap(({ names }) => names).join(' '))} ;;`,
  );
  return `# bash completion of ${program}. Load it with: source <(${program} completion bash)
${name}_value() { # sets words and paths, and returns 1 if the option takes no value
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
${name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} at='' option='' arguments=0 word index words='' paths='' commands='' options=''
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=\${COMP_WORDS[index]}
    [[ $word == '=' ]] && continue
    if [[ -n $option ]]; then option=''; continue; fi
    if [[ $word == -* ]]; then
      ${name}_value "$at $word" && option=$word
      continue
    fi
    case "\${at:+$at }$word" in
      ${pathPattern(commands)}) at="\${at:+$at }$word" ;;
      *) ((arguments++)) ;;
    esac
  done
  words='' paths=''
  [[ $current == '=' ]] && current=''
  if [[ -n $option ]]; then
    ${name}_value "$at $option"
  else
    case "$at" in
${ofCommand.join('\n')}
    esac
    ${name}_argument "$at $arguments"
    words="$commands $words"
    [[ $current == -* ]] && words=$options paths=''
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ -n $paths ]]; then
    compopt -o filenames 2> /dev/null
    local action=-f
    [[ $paths == directories ]] && action=-d
    while IFS= read -r word; do COMPREPLY+=("$word"); done < <(compgen "$action" -- "$current")
  fi
}
complete -F ${name} ${program}
`;
}
