import { Argument, Option, type Command } from 'commander';
import { answerTimeout, dataDir, file } from '../common/command-options.ts';
import { output } from '../common/output.ts';

/** Default of `--timeout` in seconds: two steps, each of which all running servers apply. */
const rotationTimeout = () => answerTimeout(120);

/** Adds `oarlock keys` and its subcommands. */
export function addKeyCommands(root: Command): void {
  const keys = root.command('keys').description('rotate the keys of the cluster');
  keys
    .command('ca')
    .description('replace the cluster CA in three steps: add, use, end; the front-proxy CA stays')
    .addArgument(new Argument('<step>').choices(['add', 'use', 'end']))
    .addOption(dataDir())
    .addOption(rotationTimeout())
    .action(async (step, options) => (await import('./keys.ts')).rotateCa('ca', step, options));
  keys
    .command('front-proxy-ca')
    .description('replace the front-proxy CA, which extension API servers trust, in the same three steps')
    .addArgument(new Argument('<step>').choices(['add', 'use', 'end']))
    .addOption(dataDir())
    .addOption(rotationTimeout())
    .action(async (step, options) => (await import('./keys.ts')).rotateCa('front-proxy-ca', step, options));
  keys
    .command('etcd-ca')
    .description('replace the CA of managed members of etcd in the same three steps; the members are restarted one after another')
    .addArgument(new Argument('<step>').choices(['add', 'use', 'end']))
    .addOption(dataDir())
    .addOption(answerTimeout(600))
    .action(async (step, options) => (await import('./etcd-ca.ts')).rotateEtcdCa(step, options));
  keys
    .command('encryption')
    .description('replace the generated key that encrypts Secrets at rest in two steps: add, end')
    .addArgument(new Argument('<step>').choices(['add', 'end']))
    .addOption(dataDir())
    .addOption(file())
    .addOption(rotationTimeout())
    .action(async (step, options) => (await import('./encryption-keys.ts')).rotateEncryptionKey(step, options));
  keys
    .command('rotate')
    .description('replace the key that signs service account tokens; tokens signed with the old key stay valid')
    .addOption(dataDir())
    .addOption(rotationTimeout())
    .addOption(
      new Option('--algorithm <name>', 'algorithm of the new key (default: that of the old key)').choices(['ES256', 'RS256'] as const),
    )
    .option('--end', 'delete the old public keys instead: tokens signed with the old keys become invalid', false)
    .action(async (options) => (await import('./keys.ts')).rotateKey(options));
  keys
    .command('status')
    .description('show the keys that servers share, and which running servers use them')
    .addOption(dataDir())
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (options) => (await import('./keys.ts')).keysStatus(options));
}
