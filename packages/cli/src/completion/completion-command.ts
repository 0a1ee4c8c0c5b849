import { Argument, type Command } from 'commander';
import { shells, type Shell } from './shells.ts';

/** Adds `oarlock completion`, whose output lists the commands of `root`. */
export function addCompletionCommand(root: Command): void {
  root
    .command('completion')
    .description('print a script that completes commands, options and their values, for a shell')
    .addArgument(new Argument('<shell>').choices(shells))
    .action(async (shell: Shell) => {
      process.stdout.write((await import('./completion.ts')).completionScript(shell, root));
    });
}
