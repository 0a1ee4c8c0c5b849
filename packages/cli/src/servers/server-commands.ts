import type { Command } from 'commander';
import type { ServerJoinOptions } from './server-join-options.ts';
import { answerTimeout, databaseTimeoutSeconds, dataDir, file, portNumber, startTimeout } from '../common/command-options.ts';
import { output } from '../common/output.ts';

/** Adds `oarlock server` with its subcommands. */
export function addServerCommands(root: Command, joinServer: (options: ServerJoinOptions) => Promise<void>): void {
  const server = root.command('server').description('run several API servers over one storage');
  server
    .command('join')
    .description('run this machine as another server of a cluster')
    .argument('[url]', 'URL of a running server, such as https://10.0.0.1:6443; required the first time')
    .option('--token <token>', 'token from `oarlock token create --role server`; required the first time')
    .option(
      '--discovery-token-ca-cert-hash <hash>',
      'hash of the cluster CA, sha256:<hex>, printed with the token; required the first time',
    )
    .option('-f, --file <file>', 'cluster.yaml of this server; default: that of the first server')
    .addOption(dataDir())
    .option(
      '--address <address>',
      'address to listen on, without -f; default: the stored one, or at first that from which this machine reaches the server',
    )
    .option('--port <number>', 'port of the API server', portNumber)
    .option('--roles <list>', 'roles of this process, comma separated: apiserver,controllers,scheduler,kubelet,proxy')
    .option('--node-name <name>', 'name of this server and of its node; default: the host name')
    .option('--detach', 'return when the server is ready and leave it running in the background', false)
    .action((url, options) => joinServer({ ...options, ...(url !== undefined && { url }) }));
  server
    .command('list')
    .description('list the servers of the cluster')
    .addOption(dataDir())
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (options) => (await import('./servers.ts')).listServers(options));
  server
    .command('remove')
    .description('remove a server that has ended from the list of servers')
    .argument('<name>')
    .addOption(dataDir())
    .addOption(answerTimeout())
    .action(async (name, options) => (await import('./servers.ts')).removeServer(name, options));
}

/** A member of etcd reads its whole database when it starts: 8 GiB within minutes. */
const resetTimeoutSeconds = 300;
const nodeNameOption = ['--node-name <name>', 'name of this server; default: that of its member, or the host name'] as const;

/** Adds `oarlock etcd` with its subcommands, for storage-etcd with `managed: true`. */
export function addEtcdCommands(root: Command): void {
  const etcd = root.command('etcd').description('snapshots and disaster recovery of the etcd members that run beside the servers');
  const snapshot = etcd.command('snapshot').description('write, list and restore snapshots');
  snapshot
    .command('save')
    .description('write a snapshot to the disk of this server')
    .argument('[name]', 'name of the snapshot; default: on-demand-SERVER-TIME')
    .addOption(dataDir())
    .addOption(answerTimeout(databaseTimeoutSeconds))
    .addOption(output())
    .action(async (name, options) => (await import('./etcd.ts')).saveSnapshot(name, options));
  snapshot
    .command('list')
    .alias('ls')
    .description('list the snapshots on the disk of this server')
    .addOption(dataDir())
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (options) => (await import('./etcd.ts')).listSnapshots(options));
  snapshot
    .command('restore')
    .description('restore a snapshot as the only member of a new etcd cluster; the servers must not run')
    .argument('<snapshot>', 'name or file of the snapshot')
    .addOption(dataDir())
    .addOption(file())
    .option(...nodeNameOption)
    .addOption(startTimeout(databaseTimeoutSeconds))
    .action(async (name, options) => (await import('./etcd.ts')).restoreSnapshot(name, options));
  etcd
    .command('defragment')
    .description(
      'return free space of the databases to the disks, one member after the other, and accept writes again after a full space quota',
    )
    .addOption(dataDir())
    .addOption(answerTimeout(databaseTimeoutSeconds))
    .addOption(output())
    .action(async (options) => (await import('./etcd.ts')).defragmentMembers(options));
  etcd
    .command('reset')
    .description('continue with the member of this server alone after the other members were lost; the server must not run')
    .addOption(dataDir())
    .addOption(file())
    .option(...nodeNameOption)
    .addOption(startTimeout(resetTimeoutSeconds))
    .action(async (options) => (await import('./etcd.ts')).resetMembers(options));
}
