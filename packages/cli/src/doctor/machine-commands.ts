import type { Command } from 'commander';
import { dataDir } from '../common/command-options.ts';
import { output } from '../common/output.ts';

/** Adds the commands that describe this machine and this program. */
export function addMachineCommands(root: Command): void {
  root
    .command('doctor')
    .description('show what this machine can run and what it lacks; exits with 1 if no ready composition can run here')
    .addOption(dataDir())
    .addOption(output())
    .option('--report <file>', 'also write the result, without names, addresses and secrets, to a file for a bug report')
    .action(async (options) => (await import('./doctor.ts')).doctor(options));
  root
    .command('version')
    .description('show the versions of Oarlock, of the Kubernetes that it implements, and of Node')
    .addOption(output())
    .action(async (options) => (await import('./version.ts')).printVersion(options));
}
