import { Argument, Command, CommanderError, Option } from 'commander';
import { oarlockVersion } from '@oarlock/cluster/process/version';
import { exitCodes, describeError } from './common/command-error.ts';
import { addCommandProgress } from './common/progress/command-progress.ts';
import { progress } from './common/progress/progress.ts';
import { hideToken } from './common/token-argument.ts';
import {
  addNameOption,
  answerTimeout,
  backupTimeout,
  dataDir,
  featureGates,
  file,
  kubeconfig as kubeconfigOption,
  portNumber,
  seconds,
  replicas,
  serverList,
  servers,
  startTimeout,
  timeoutSeconds,
} from './common/command-options.ts';
import { holdProcess } from './common/hold-process.ts';
import { output } from './common/output.ts';
import { addCompletionCommand } from './completion/completion-command.ts';
import { addConsoleCommand } from './console/console-command.ts';
import { addDevCommand } from './dev/dev-command.ts';
import { addMachineCommands } from './doctor/machine-commands.ts';
import { addAuthCommands, addExplainCommands, addTraceCommand } from './explain/explain-commands.ts';
import { addKeyCommands } from './keys/key-commands.ts';
import { addImageCommands } from './nodes/images/image-commands.ts';
import { addNodeCommands, addTokenCommands } from './nodes/node-commands.ts';
import { addEtcdCommands, addServerCommands } from './servers/server-commands.ts';

/** Builds the command line. Each command imports its module when it runs, so that `oarlock --help` stays fast. */
export function program(): Command {
  const root = new Command('oarlock')
    .description('A Kubernetes in which every component is a plugin.')
    .version(oarlockVersion)
    .exitOverride()
    .configureOutput({ writeErr: (text) => process.stderr.write(text) });
  // in the order of `oarlock --help`
  addClusterCommands(root);
  addConsoleCommand(root);
  addBackupCommands(root);
  addConfigCommands(root);
  addPluginCommands(root);
  addTokenCommands(root);
  addKeyCommands(root);
  addImageCommands(root);
  addAuthCommands(root);
  addNodeCommands(root, async (options) => (await import('./node-join.ts')).join(options));
  addServerCommands(root, async (options) => (await import('./server-join.ts')).joinServer(options));
  addEtcdCommands(root);
  addTraceCommand(root);
  addExplainCommands(root);
  addMachineCommands(root);
  addCompletionCommand(root);
  addNameOption(root);
  addCommandProgress(root);
  overrideExit(root);
  return root;
}

/** Makes commander throw instead of ending the process, for a command and its subcommands. */
function overrideExit(command: Command): void {
  command.exitOverride();
  for (const child of command.commands) overrideExit(child);
}

function addClusterCommands(root: Command): void {
  root
    .command('up')
    .description('start a cluster, or the roles of it that --roles names')
    .addOption(file())
    .addOption(dataDir())
    .option('--port <number>', 'port of the API server', portNumber)
    .option('--feature-gates <list>', 'feature gates such as A=true,B=false, in addition to those of the file', featureGates)
    .option('--roles <list>', 'roles of this process, comma separated: apiserver,controllers,scheduler,kubelet,proxy')
    .option('--node-name <name>', 'name of this node; default: the host name')
    .addOption(servers('URL of an API server, for a process without the apiserver role; repeat it for each server'))
    .option('--kubeconfig <file>', 'kubeconfig for the API server, for a process without the apiserver role')
    .option('--init', 'start the first server of a cluster; others join it with `oarlock server join`', false)
    .option('--detach', 'return when the cluster is ready and leave it running in the background', false)
    .action(async (options) => (await import('./up.ts')).up(options));
  root
    .command('init')
    .description('write a cluster.yaml with comments, and its JSON schema for editors')
    .addArgument(new Argument('[composition]', 'ready composition to begin with').default('embedded'))
    .option('-o, --output <file>', 'file to write', 'cluster.yaml')
    .action(async (composition, options) => (await import('./config/init.ts')).init(composition, options));
  addDevCommand(root);
  root
    .command('down')
    .description('stop the cluster of a data directory')
    .addOption(dataDir())
    .action(async (options) => (await import('./status/down.ts')).down(options));
  root
    .command('status')
    .description('show the process, the health checks of its API server, and the servers, leaders, nodes and certificates of the cluster')
    .addOption(dataDir())
    .addOption(kubeconfigOption())
    .addOption(output())
    .action(async (options) => (await import('./status/status.ts')).status(options));
  root
    .command('top')
    .description('show the use, readiness and restarts of pods, nodes and the control plane: live in a terminal, otherwise once')
    .addOption(dataDir())
    .addOption(kubeconfigOption())
    .option('-n, --namespace <namespace>', 'namespace of the pods; default: all')
    .addOption(
      new Option('--sort <column>', 'order of the tables; keys change it').choices(['name', 'cpu', 'memory', 'restarts']).default('name'),
    )
    .option('--interval <seconds>', 'time between two reads of figures that cannot be watched', seconds, 5)
    .addOption(answerTimeout())
    .addOption(output())
    .action(async (options) => (await import('./status/top/top.ts')).top(options));
  root
    .command('kubeconfig')
    .description('print the kubeconfig of the cluster admin')
    .addOption(dataDir())
    .addOption(serverList())
    .action(async (options) => (await import('./status/status.ts')).kubeconfig(options));
}

function addBackupCommands(root: Command): void {
  root
    .command('backup')
    .description('write all stored objects and the keys to one file; works while the cluster runs')
    .addOption(dataDir())
    .requiredOption('-o, --output <file>', 'backup file to write')
    .addOption(file())
    .option('--no-keys', 'leave out the CA, the service account signing key and the encryption keys')
    .addOption(backupTimeout())
    .action(async (options) => (await import('./backup/backup.ts')).backup(options));
  root
    .command('restore')
    .description('restore a backup into an empty storage; the cluster must not run')
    .addOption(dataDir())
    .requiredOption('-i, --input <file>', 'backup file to read')
    .addOption(file())
    .option('--no-keys', 'do not restore the keys; keep those of the data directory')
    .addOption(startTimeout())
    .action(async (options) => (await import('./backup/restore.ts')).restore(options));
}

function addConfigCommands(root: Command): void {
  const config = root.command('config').description('check or print a cluster.yaml without running it');
  config
    .command('validate')
    .description('check a cluster.yaml; exits with 2 and lists each error with its line if it is invalid')
    .addOption(file().makeOptionMandatory())
    .addOption(output())
    .action(async (options) => (await import('./config/config.ts')).validate(options));
  config
    .command('schema')
    .description('print the JSON schema of a cluster.yaml')
    .action(async () => (await import('./config/init.ts')).printSchema());
  config
    .command('print')
    .description('print a cluster.yaml with all defaults; without -f, the one that `oarlock up` would use')
    .addOption(file())
    .addOption(output('yaml'))
    .action(async (options) => (await import('./config/config.ts')).print(options));
}

function addPluginCommands(root: Command): void {
  const plugins = root.command('plugins').description('list, add, create and export plugins, and write the types of custom resources');
  plugins
    .command('list')
    .description('list the installed plugins by slot, and whether this machine can run them')
    .addOption(output())
    .action(async (options) => (await import('./plugins-list.ts')).list(options));
  plugins
    .command('add')
    .description('install a plugin with npm and add it to a cluster.yaml; changes nothing if the file is invalid with it')
    .argument('<name>', 'npm package, optionally with @VERSION, the folder of a package, or a plugin of Oarlock')
    .addOption(file().default('cluster.yaml'))
    .option('--config <file>', 'config of the plugin, in YAML or JSON')
    .action(async (name, options) => (await import('./config/plugins-add.ts')).add(name, options));
  plugins
    .command('new')
    .description('create a plugin package from the template of its slot')
    .argument('[slot]', 'without it, the slots are listed', '')
    .argument('[name]', '', '')
    .option('--dir <dir>', 'directory to create; default: plugins/<slot>-<name>')
    .action(async (slot, name, options) => (await import('./plugins-new.ts')).create(slot, name, options));
  plugins
    .command('types')
    .description('print the TypeScript types of custom resources')
    .argument('<sources...>', 'manifests such as ./crd.yaml, or names of definitions in the cluster such as websites.example.com')
    .option('-o, --output <file>', 'file to write')
    .addOption(dataDir())
    .addOption(kubeconfigOption())
    .addOption(answerTimeout())
    .action(async (sources, options) => (await import('./export/custom-resource-types.ts')).types(sources, options));
  plugins
    .command('export')
    .description('write a plugin as a container image and manifests, to run it in any Kubernetes')
    .option('--webhook <plugin>', 'admission, authn or authz plugin: a file such as ./plugin.ts, or the name of an installed plugin')
    .option('--controller <plugin>', 'controller plugin, to run it in a Deployment with leader election')
    .option('--scheduler <plugin>', 'scheduling plugin, to run it in a scheduler with a name of its own')
    .requiredOption('-o, --output <dir>', 'directory to write')
    .option('--config <file>', 'config of the plugin, in YAML or JSON')
    .option('--name <name>', 'name of all objects; default: the id of the plugin')
    .option('--namespace <namespace>', 'namespace of the server; the default depends on the slot, such as oarlock-webhooks')
    .option('--image <image>', 'name of the image; default: NAME:latest')
    .option('--base-image <image>', 'base image, with node 20.19 or newer', 'node:22-alpine')
    .option('--reads <resources...>', 'resources that the plugin reads without an informer, such as configmaps or deployments.apps', [])
    .option('--failure-policy <policy>', 'failurePolicy of the webhook: Fail or Ignore', 'Fail')
    .option('--timeout <seconds>', 'timeoutSeconds of the webhook, 1 to 30', timeoutSeconds, 10)
    .option('--url <url>', 'URL of the server if the API server cannot use its Service, such as https://127.0.0.1:8443')
    .option('--replicas <number>', 'replicas of a controller or scheduler, of which one leads', replicas, 2)
    .option('--scheduler-name <name>', 'schedulerName of the pods that a scheduler places; default: the name of the objects')
    .action(async (options) => (await import('./export/export-plugin.ts')).exportPlugin(options));
}

/**
 * Runs the command of process.argv and sets the exit code of the process. Never rejects. Keeps the process alive until the command has finished: timers
 * and connections of the cluster's components do not.
 */
export async function main(): Promise<void> {
  hideToken();
  const finished = holdProcess();
  process.once('exit', () => progress.stop());
  try {
    await program().parseAsync();
  } catch (error) {
    progress.stop();
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
    } else {
      const { message, exitCode } = describeError(error);
      process.stderr.write(`${message}\n`);
      process.exitCode = exitCode;
    }
  } finally {
    finished();
  }
}
