/** Finds command lines of `oarlock` in Markdown pages, and compares them with the command table that the help is made of. */
import type { CompletedCommand, CompletedOption } from '../../src/completion/command-model.ts';

export interface DocumentedCommand {
  readonly line: number;
  readonly text: string;
  /** The words after the program. */
  readonly words: readonly string[];
}

const shellBlock = /^( *)```(?:sh|bash|console)\n([\s\S]*?)^\1```/gm;
const lineAt = (page: string, index: number): number => page.slice(0, index).split('\n').length;

/**
 * Splits a line of a shell at its operators, and drops its comment. Quotes keep an operator in a word. The brackets of a synopsis, as in
 * `[--detach]`, are no part of its words.
 */
function simpleCommands(line: string): readonly (readonly string[])[] {
  const tokens = line.replaceAll('\\|', '|').match(/"[^"]*"|'[^']*'|\s#.*|\s\|\s|&&|\|\||\$\(|[;&()<>]|[^\s;&()<>"']+/g) ?? [];
  const commands: string[][] = [[]];
  for (const token of tokens) {
    if (/^\s#/.test(token)) break;
    if (/^(?:&&|\|\||\$\(|\s?\|\s?|[;&()<>])$/.test(token)) commands.push([]);
    else commands.at(-1)?.push(token.replace(/^(["'])(.*)\1$/, '$2').replaceAll(/^\[+|\]+(?:\.\.\.)?$/g, ''));
  }
  return commands;
}

/** Returns the words after `oarlock` if the command runs it: directly, by npx or sudo, or by the path of an installation. */
function wordsAfterProgram(command: readonly string[]): readonly string[] | undefined {
  const path = command.findIndex((word) => word.endsWith('/bin/oarlock'));
  if (path >= 0 && !['ln', 'cp', 'rm'].some((word) => command.includes(word))) return command.slice(path + 1);
  const program = command.findIndex((word) => !/^(?:\$|sudo|-E|npx|\w+=.*)$/.test(word));
  return command[program] === 'oarlock' ? command.slice(program + 1) : undefined;
}

/** Returns the commands of a page's shell examples, and of its inline code that begins with the program. */
export function documentedCommands(page: string): readonly DocumentedCommand[] {
  const found: DocumentedCommand[] = [];
  const add = (text: string, line: number) => {
    for (const command of simpleCommands(text)) {
      const words = wordsAfterProgram(command);
      if (words !== undefined) found.push({ line, text: text.trim(), words });
    }
  };
  for (const { 2: block = '', index } of page.matchAll(shellBlock)) {
    const first = lineAt(page, index) + 1;
    const lines = block.split('\n');
    for (let at = 0; at < lines.length; at += 1) {
      const start = at;
      let text = lines[at] ?? '';
      while (text.endsWith('\\')) text = `${text.slice(0, -1)} ${lines[((at += 1))] ?? ''}`;
      add(text, first + start);
    }
  }
  const prose = page.replaceAll(/^( *)```[\s\S]*?^\1```/gm, (block) => block.replaceAll(/[^\n]/g, ' '));
  for (const { 1: code = '', index } of prose.matchAll(/`((?:sudo )?(?:npx )?oarlock [^`\n]*)`/g)) add(code, lineAt(page, index));
  return found;
}

/** True for a value that stands for one that the reader chooses. */
const isPlaceholder = (word: string): boolean => /^[A-Z][A-Z_-]*$|\.\.\.|…/.test(word);

function optionProblems(
  { options, path }: CompletedCommand,
  words: readonly string[],
): { readonly rest: string[]; readonly problems: string[] } {
  const rest: string[] = [];
  const problems: string[] = [];
  for (let at = 0; at < words.length; at += 1) {
    const word = words[at] ?? '';
    if (!/^--?[a-z]/.test(word)) {
      rest.push(word);
      continue;
    }
    const [name = '', argument] = word.split('=', 2);
    const option = options.find(({ names }) => names.includes(name));
    if (option === undefined) problems.push(`oarlock ${path} has no option ${name}`);
    else if (option.value !== undefined) problems.push(...valueProblems(option, name, argument ?? words[(at += 1)]));
  }
  return { rest, problems };
}

function valueProblems({ value }: CompletedOption, name: string, argument: string | undefined): readonly string[] {
  // inline code may name an option without its value
  if (value === undefined || value.words.length === 0 || value.paths !== undefined || argument === undefined || isPlaceholder(argument))
    return [];
  const unknown = argument.split('|').filter((word) => !value.words.includes(word));
  return unknown.map((word) => `${name} does not take ${word}`);
}

/** Returns what a documented command names that the command table does not have: commands, options, values and arguments. */
export function commandProblems(model: readonly CompletedCommand[], { words }: DocumentedCommand): readonly string[] {
  const commandAt = (path: string) => model.find((each) => each.path === path);
  let command = commandAt('');
  let at = 0;
  for (; command !== undefined && command.subcommands.length > 0 && at < words.length; at += 1) {
    const word = words[at] ?? '';
    if (word === 'help') return [];
    if (word.startsWith('-') || isPlaceholder(word)) break;
    // inline code may list commands, as in `oarlock image list|pull`
    const { path } = command;
    const next = word.split('|').map((each) => ({ each, found: commandAt(`${path} ${each}`.trim()) }));
    const missing = next
      .filter(({ found }) => found === undefined)
      .map(({ each }) => `oarlock${path && ` ${path}`} has no command ${each}`);
    if (missing.length > 0) return missing;
    command = next[0]?.found;
  }
  if (command === undefined) return ['the command table is empty'];
  const { rest, problems } = optionProblems(command, words.slice(at));
  const tooMany = problems.length === 0 && command.subcommands.length === 0 && !command.variadic && rest.length > command.values.length;
  return [...problems, ...(tooMany ? [`oarlock ${command.path} takes ${command.values.length} arguments, not ${rest.join(' ')}`] : [])];
}
