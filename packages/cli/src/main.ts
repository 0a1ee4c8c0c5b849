import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { oarlockVersion } from '@oarlock/cluster/version';
import { exitCodes, explain } from './exit.ts';

const dataDir = () => new Option('--data-dir <dir>', 'where the cluster keeps its state').default('./.oarlock');
const file = () => new Option('-f, --file <file>', 'the cluster.yaml to run');

function portNumber(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new InvalidArgumentError('a port is a number from 0 to 65535.');
  return port;
}

function secondsNumber(text: string): number {
  const seconds = Number(text);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > 30) throw new InvalidArgumentError('a timeout is a number from 1 to 30.');
  return seconds;
}

/** Each command loads only what it needs: the command line itself has to be quick. */
function program(): Command {
  const root = new Command('oarlock')
    .description('A Kubernetes whose every organ is a plugin.')
    .version(oarlockVersion)
    .exitOverride()
    .configureOutput({ writeErr: (text) => process.stderr.write(text) });

  root
    .command('up')
    .description('run a cluster, or the part of one that --roles names')
    .addOption(file())
    .addOption(dataDir())
    .option('--port <number>', 'port of the API server', portNumber)
    .option('--roles <list>', 'comma separated: apiserver,controllers,scheduler,kubelet,proxy')
    .option('--node-name <name>', 'name of this node; default: the host name')
    .option('--server <url>', 'API server of another process, for roles without one of their own')
    .option('--kubeconfig <file>', 'how to reach --server')
    .option('--detach', 'return when the cluster is ready and leave it running', false)
    .action(async (options) => (await import('./up.ts')).up(options));
  root
    .command('dev')
    .description('run a cluster in memory with plugins that are being written: each save is taken up, each write explained')
    .argument('[plugins...]', 'files such as ./plugin.ts, besides those that the file after -f names')
    .option('-f, --file <file>', 'a cluster.yaml; default: one simulated node')
    .addOption(new Option('--data-dir <dir>', 'where keys and the kubeconfig are').default('./.oarlock-dev'))
    .option('--port <number>', 'port of the API server; default: any', portNumber)
    .option('--all', 'show also what the cluster itself writes', false)
    .action(async (plugins, options) => (await import('./dev/dev.ts')).dev(plugins, options));
  root
    .command('down')
    .description('stop the cluster of a data directory')
    .addOption(dataDir())
    .action(async (options) => (await import('./down.ts')).down(options));
  root
    .command('status')
    .description('say what runs and how it is')
    .addOption(dataDir())
    .action(async (options) => (await import('./status.ts')).status(options));
  root
    .command('kubeconfig')
    .description('print the admin kubeconfig')
    .addOption(dataDir())
    .action(async (options) => (await import('./status.ts')).kubeconfig(options));

  root
    .command('backup')
    .description('write everything that is stored, and the keys, to one file; the cluster may run')
    .addOption(dataDir())
    .requiredOption('-o, --output <file>', 'the file to write')
    .addOption(file())
    .option('--no-keys', 'leave the CA, the signing key and the encryption keys out')
    .action(async (options) => (await import('./backup.ts')).backup(options));
  root
    .command('restore')
    .description('fill an empty storage from a backup; the cluster must not run')
    .addOption(dataDir())
    .requiredOption('-i, --input <file>', 'the backup')
    .addOption(file())
    .option('--no-keys', 'leave the keys of the data directory as they are')
    .action(async (options) => (await import('./restore.ts')).restore(options));

  const config = root.command('config').description('look at a cluster.yaml without running it');
  config
    .command('validate')
    .description('check it: exit code 2 and every fault with its line')
    .addOption(file().makeOptionMandatory())
    .action(async (options) => (await import('./config.ts')).validate(options));
  config
    .command('print')
    .description('print it with all defaults filled in; without -f, what `oarlock up` would take')
    .addOption(file())
    .action(async (options) => (await import('./config.ts')).print(options));

  const plugins = root.command('plugins').description('the plugins there are');
  plugins
    .command('list')
    .description('what is installed, by slot, and whether this machine can run it')
    .option('-o, --output <format>', 'text or json', 'text')
    .action(async (options) => (await import('./plugins.ts')).list(options));
  plugins
    .command('new')
    .description('write a plugin package to begin with')
    .argument('<slot>')
    .argument('<name>')
    .option('--dir <dir>', 'where to write it; default: plugins/<slot>-<name>')
    .action(async (slot, name, options) => (await import('./plugins-new.ts')).create(slot, name, options));

  plugins
    .command('export')
    .description('write a plugin as a container image and manifests, for any Kubernetes')
    .requiredOption('--webhook <plugin>', 'a file such as ./plugin.ts, or the name of an installed one: admission, authn or authz')
    .requiredOption('-o, --output <dir>', 'where to write them')
    .option('--config <file>', "the plugin's config, in YAML or JSON")
    .option('--name <name>', "of all objects; default: the plugin's id")
    .option('--namespace <namespace>', 'in which it runs; default: oarlock-webhooks, or oarlock-control-plane for authn and authz')
    .option('--image <image>', 'what the image will be called; default: NAME:latest')
    .option('--base-image <image>', 'any image with node 20.19 or newer', 'node:22-alpine')
    .option('--reads <resources...>', 'what it reads besides what its informers follow: configmaps, deployments.apps', [])
    .option('--failure-policy <policy>', 'Fail or Ignore: what becomes of requests when it does not answer', 'Fail')
    .option('--timeout <seconds>', 'how long it is waited for, 1 to 30', secondsNumber, 10)
    .option('--url <url>', 'where it is reached instead of its Service, such as https://127.0.0.1:8443')
    .action(async (options) => (await import('./export/export.ts')).exportWebhook(options));

  const token = root.command('token').description('tokens with which nodes join');
  token
    .command('create')
    .description('print a new token and the command to join with')
    .addOption(dataDir())
    .option('--ttl <hours>', 'hours until it expires', '24')
    .action(async (options) => (await import('./token.ts')).createToken(options));
  const keys = root.command('keys').description('keys of the cluster');
  keys
    .command('ca')
    .description('put another CA in the place of the one that there is, in three steps: add, use, end')
    .addArgument(new Argument('<step>').choices(['add', 'use', 'end']))
    .addOption(dataDir())
    .action(async (step, options) => (await import('./keys.ts')).rotateCa(step, options));
  keys
    .command('rotate')
    .description('sign tokens of service accounts with a new key from now on')
    .addOption(dataDir())
    .action(async (options) => (await import('./keys.ts')).rotateKey(options));
  const auth = root.command('auth').description('who may do what');
  auth
    .command('why')
    .description('say which authorizer allows or denies something, and by which rule')
    .argument('<user>', 'a name, such as ada or system:serviceaccount:default:robot')
    .argument('<verb>')
    .argument('<resource>', 'such as pods, deployments.apps/scale, or a path such as /metrics')
    .argument('[name]')
    .addOption(dataDir())
    .option('-n, --namespace <namespace>', "namespace of the object; '' for all", 'default')
    .option('-g, --group <groups...>', 'groups of the user besides those that the name implies', [])
    .option('-o, --output <format>', 'text or json', 'text')
    .action(async (user, verb, resource, name, options) => (await import('./auth.ts')).why(user, verb, resource, name, options));
  const node = root.command('node').description('nodes on other machines');
  node
    .command('join')
    .description('run a node of a cluster that runs elsewhere')
    .option('--server <url>', 'the API server')
    .option('--token <token>', 'from `oarlock token create`; needed the first time')
    .option('--ca-hash <hash>', 'sha256:<hex> of the cluster CA, printed with the token; needed the first time')
    .addOption(file())
    .addOption(new Option('--data-dir <dir>', 'where the node keeps its state').default('./.oarlock-node'))
    .option('--node-name <name>', 'default: the host name')
    .option('--detach', 'return when the node is registered', false)
    .action(async (options) => (await import('./node-join.ts')).join(options));

  root
    .command('trace')
    .description('show what happened between a write and its effect, step by step')
    .argument('[object]', 'such as deployment/hello or pod/hello-abc')
    .addOption(dataDir())
    .option('-n, --namespace <namespace>', 'namespace of the object', 'default')
    .option('--failed', 'show where it stopped and why', false)
    .option('-o, --output <format>', 'text or json', 'text')
    .action(async (object, options) => (await import('./trace.ts')).trace(object, options));

  const explanation = root.command('explain').description('why something is as it is');
  explanation
    .command('pod')
    .description('say for each node why a pod is not there, or how good it would be')
    .argument('[name]')
    .addOption(dataDir())
    .option('--kubeconfig <file>', 'how to reach the cluster; default: as its admin')
    .option('-n, --namespace <namespace>', 'namespace of the pod', 'default')
    .option('--what-if', 'schedule the pods of a manifest without making them', false)
    .option('-f, --file <file>', 'the manifest')
    .option('-o, --output <format>', 'text or json', 'text')
    .action(async (name, options) => (await import('./explain-pod.ts')).explainPod(name, options));
  explanation
    .command('traffic')
    .description('say which rule of which NetworkPolicy decides whether one end may reach another')
    .argument('<from>', 'a pod as NAME or NAMESPACE/NAME, or an address')
    .argument('<to>', 'likewise')
    .argument('<port>', 'such as 80, 53/udp, or the name that the pod has for it')
    .addOption(dataDir())
    .option('-n, --namespace <namespace>', 'namespace of pods that are named without one', 'default')
    .option('-o, --output <format>', 'text or json', 'text')
    .action(async (from, to, port, options) => (await import('./explain-traffic.ts')).explainTrafficBetween(from, to, port, options));

  const inherit = (command: Command): void => {
    command.exitOverride();
    for (const child of command.commands) inherit(child);
  };
  inherit(root);
  return root;
}

/** Runs the command that the process was started with, and sets its exit code. Never rejects. */
export async function main(): Promise<void> {
  try {
    await program().parseAsync();
  } catch (error) {
    if (error instanceof CommanderError) {
      process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
    } else {
      const { message, exitCode } = explain(error);
      process.stderr.write(`${message}\n`);
      process.exitCode = exitCode;
    }
  }
}
