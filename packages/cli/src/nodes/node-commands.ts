import { Option, type Command } from 'commander';
import { answerTimeout, dataDir, file, kubeconfig, seconds, servers } from '../common/command-options.ts';
import { output } from '../common/output.ts';
import type { NodeJoinOptions } from './node-join-options.ts';

/** Adds `oarlock token` with its subcommands. */
export function addTokenCommands(root: Command): void {
  const token = root.command('token').description('manage the tokens that nodes and servers join with');
  token
    .command('create')
    .description('create a bootstrap token and print the command that joins a node or a server with it')
    .addOption(dataDir())
    .addOption(new Option('--role <role>', 'role of the machine that joins').choices(['node', 'server']).default('node'))
    .option('--ttl <hours>', 'hours until the token expires', '24')
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (options) => (await import('./token.ts')).createToken(options));
}

/** Adds `oarlock node` with its subcommands. */
export function addNodeCommands(root: Command, joinNode: (options: NodeJoinOptions) => Promise<void>): void {
  const node = root.command('node').description('run nodes on other machines, and list or remove them');
  node
    .command('join')
    .description('run this machine as a node of a cluster that runs elsewhere')
    .addOption(servers('URL of an API server; repeat it for each server'))
    .option('--token <token>', 'token from `oarlock token create`; required the first time')
    .option('--ca-hash <hash>', 'hash of the cluster CA, sha256:<hex>, printed with the token; required the first time')
    .addOption(file())
    .addOption(new Option('--data-dir <dir>', 'data directory of the node').default('./.oarlock-node'))
    .option('--node-name <name>', 'name of this node; default: the host name')
    .option('--detach', 'return when the node is registered and leave it running in the background', false)
    .action(joinNode);
  node
    .command('list')
    .description('list the nodes of the cluster, with the ends of their certificates')
    .addOption(dataDir())
    .addOption(kubeconfig())
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (options) => (await import('./nodes.ts')).listNodes(options));
  node
    .command('remove')
    .description('evict the pods of a node, revoke its certificates and delete it')
    .argument('<name>')
    .addOption(dataDir())
    .addOption(kubeconfig())
    .option('--timeout <seconds>', 'time for the eviction of its pods', seconds, 300)
    .action(async (name, options) => (await import('./nodes.ts')).removeNode(name, options));
}
