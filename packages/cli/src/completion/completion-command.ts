import { Argument, type Command } from 'commander';

export const shells = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof shells)[number];

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
