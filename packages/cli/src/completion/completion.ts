import type { Command } from 'commander';
import { bashScript } from './bash.ts';
import { commandModel } from './command-model.ts';
import type { Shell } from './shells.ts';
import { fishScript } from './fish.ts';
import { zshScript } from './zsh.ts';

const scripts = { bash: bashScript, zsh: zshScript, fish: fishScript } satisfies Record<Shell, unknown>;

/** Returns the completion script of a shell for a command and its subcommands. */
export const completionScript = (shell: Shell, root: Command): string => scripts[shell](root.name(), commandModel(root));
