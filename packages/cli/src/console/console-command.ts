import type { Command } from 'commander';
import { CommandError, exitCodes } from '../common/command-error.ts';
import { answerTimeout, dataDir, portNumber } from '../common/command-options.ts';

interface ConsoleOptions {
  readonly dataDir: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly port?: number;
  readonly timeout: number;
}

/** Adds `oarlock console`: a link to the console that a cluster serves, or a console on this machine for any cluster. */
export function addConsoleCommand(root: Command): void {
  root
    .command('console')
    .description('print a link that signs in to the web console once; with --kubeconfig, serve the console of any cluster on this machine')
    .addOption(dataDir())
    .option('--kubeconfig <file>', 'serve the console on 127.0.0.1 for the API server and the user of this kubeconfig')
    .option('--context <name>', 'context of the kubeconfig; default: its current context')
    .option('--port <number>', 'port on 127.0.0.1, with --kubeconfig; default: a free port', portNumber)
    .addOption(answerTimeout())
    .action(async ({ dataDir: directory, kubeconfig, context, port, timeout }: ConsoleOptions) => {
      if (kubeconfig === undefined) {
        if (context !== undefined || port !== undefined)
          throw new CommandError('--context and --port require --kubeconfig', exitCodes.usage);
        return (await import('./console-link.ts')).printLink({ dataDir: directory, timeout });
      }
      const own = { kubeconfig, ...(context !== undefined && { context }), ...(port !== undefined && { port }) };
      return (await import('./serve-console.ts')).serveConsole(own);
    });
}
