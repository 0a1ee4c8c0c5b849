import type { CompletedCommand, CompletedOption, CompletedValue } from './command-model.ts';

const quote = (text: string) => `'${text.replaceAll('\\', String.raw`\\`).replaceAll("'", String.raw`\'`)}'`;

/** Returns the arguments of \`complete\` for a value. */
function valueArguments({ words, paths }: CompletedValue): string {
  const candidates = [...words, ...(paths === 'directories' ? ['(__fish_complete_directories)'] : [])].join(' ');
  return `${paths === 'files' ? '-r -F' : '-x'}${candidates === '' ? '' : ` -a ${quote(candidates)}`}`;
}

function optionArguments({ names, description, value }: CompletedOption): string {
  const flags = names.map((name) => (name.startsWith('--') ? `-l ${name.slice(2)}` : `-s ${name.slice(1)}`));
  return [...flags, ...(value === undefined ? [] : [valueArguments(value)]), '-d', quote(description)].join(' ');
}

/** Returns a script for fish, to be loaded or to be placed into ~/.config/fish/completions. */
export function fishScript(program: string, commands: readonly CompletedCommand[]): string {
  const at = `__${program}_at`;
  const lines = commands.flatMap(({ path, subcommands, options, values, variadic }) => {
    const complete = (condition: string, rest: string) => `complete -c ${program} -n ${quote(`${at} ${condition}`)} ${rest}`;
    return [
      ...subcommands.map(({ name, description }) => complete(`${quote(path)} 0`, `-a ${name} -d ${quote(description)}`)),
      ...options.map((option) => complete(quote(path), optionArguments(option))),
      ...values.flatMap((value, index) => {
        const last = variadic && index === values.length - 1;
        const condition = `${quote(path)} ${last ? '' : index}`.trim();
        return [
          ...(value.words.length > 0 ? [complete(condition, `-a ${quote(value.words.join(' '))}`)] : []),
          ...(value.paths === undefined ? [] : [complete(condition, '-F')]),
        ];
      }),
    ];
  });
  const paths = commands.flatMap(({ path }) => (path === '' ? [] : [quote(path)]));
  const withValues = commands.flatMap(({ path, options }) =>
    options.flatMap(({ names, value }) => (value === undefined ? [] : names.map((name) => quote(`${path} ${name}`)))),
  );
  return `# fish completion of ${program}. Load it with: ${program} completion fish | source
function ${at} -d 'true if the command line is at this command, with this number of arguments'
    set -l path ''
    set -l count 0
    set -l skip 0
    for word in (commandline -opc)[2..]
        if test $skip = 1
            set skip 0
        else if string match -q -- '-*' $word
            contains -- "$path $word" ${withValues.join(' ')}; and set skip 1
        else if contains -- (string trim -- "$path $word") ${paths.join(' ')}
            set path (string trim -- "$path $word")
        else
            set count (math $count + 1)
        end
    end
    test "$path" = "$argv[1]"; and test -z "$argv[2]" -o "$argv[2]" = "$count"
end
complete -c ${program} -f
${lines.join('\n')}
`;
}
