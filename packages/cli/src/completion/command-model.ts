import { readyCompositions } from '@oarlock/cluster/composition/ready-compositions';
import type { Argument, Command, Option } from 'commander';

/** The completions of a value: the listed words, and files or directories. */
export interface CompletedValue {
  readonly words: readonly string[];
  readonly paths?: 'files' | 'directories';
}
export interface CompletedOption {
  /** `-f` and `--file`, as far as the option has them. */
  readonly names: readonly string[];
  readonly description: string;
  /** Undefined for a switch. */
  readonly value?: CompletedValue;
}
export interface CompletedCommand {
  /** The words after the program, such as `etcd snapshot save`; empty for the program itself. */
  readonly path: string;
  readonly subcommands: readonly { readonly name: string; readonly description: string }[];
  readonly options: readonly CompletedOption[];
  /** Values of the arguments in their order. The last one repeats if it is variadic. */
  readonly values: readonly CompletedValue[];
  readonly variadic: boolean;
}

/** Returns the values that a placeholder such as `<file|composition>` of the help stands for. */
function valueOf(placeholder: string, choices: readonly string[] | undefined): CompletedValue {
  if (choices !== undefined) return { words: choices };
  const kinds = placeholder.split('|');
  return {
    words: kinds.includes('composition') ? readyCompositions() : [],
    ...(kinds.includes('file') ? { paths: 'files' } : kinds.includes('dir') ? { paths: 'directories' } : {}),
  };
}

const optionOf = ({ short, long, flags, description, argChoices }: Option): CompletedOption => {
  const placeholder = /[<[](.+?)(?:\.\.\.)?[>\]]$/.exec(flags)?.[1];
  return {
    names: [short, long].filter((name) => name !== undefined && name !== null),
    description,
    ...(placeholder !== undefined && { value: valueOf(placeholder, argChoices) }),
  };
};
const argumentValue = (argument: Argument): CompletedValue => valueOf(argument.name(), argument.argChoices);

/** Returns a command and all its subcommands, from the table that the help is made of. */
export function commandModel(command: Command, path = ''): readonly CompletedCommand[] {
  const help = command.createHelp();
  const children = help.visibleCommands(command);
  const own: CompletedCommand = {
    path,
    subcommands: children.flatMap((child) =>
      [child.name(), ...child.aliases()].map((name) => ({ name, description: child.description() })),
    ),
    options: help.visibleOptions(command).map(optionOf),
    values: command.registeredArguments.map(argumentValue),
    variadic: command.registeredArguments.at(-1)?.variadic === true,
  };
  // `help` completes the names of commands, which its argument does not know
  const nested = children.filter((child) => child.name() !== 'help');
  return [own, ...nested.flatMap((child) => commandModel(child, `${path} ${child.name()}`.trim()))];
}
