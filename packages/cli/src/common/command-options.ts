import { parseFeatureGates } from '@oarlock/api/component-helpers/feature-gates';
import { InvalidArgumentError, Option, type Command } from 'commander';
import { checkDataDir } from './check-data-dir.ts';
import { CommandError, exitCodes } from './command-error.ts';

const defaultDataDir = './.oarlock';
export const dataDir = () => new Option('--data-dir <dir>', 'data directory of the cluster').default(defaultDataDir);

/**
 * Adds `--name` to a command and its subcommands, where they have the data directory of a cluster: it names the cluster and its directory. Commands with
 * a data directory check it before they act.
 */
export function addNameOption(command: Command): void {
  for (const child of command.commands) addNameOption(child);
  const option = command.options.find(({ long }) => long === '--data-dir');
  if (option === undefined) return;
  if (option.defaultValue === defaultDataDir) {
    command.addOption(
      new Option('--name <name>', 'name of the cluster; its data directory is ./.oarlock-<name>').argParser((name: string) => {
        if (!/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(name)) throw new InvalidArgumentError('a name is a DNS label in lower case.');
        return name;
      }),
    );
    command.hook('preAction', (_, action) => applyName(action));
  }
  command.hook('preAction', (_, action) => checkOwnDataDir(action));
}

/** Sets the data directory of a command with `--name`. @throws CommandError if `--data-dir` names another one */
function applyName(command: Command): void {
  const { name } = command.opts<{ readonly name?: string }>();
  if (name === undefined) return;
  if (command.getOptionValueSource('dataDir') !== 'default')
    throw new CommandError(
      `--name and --data-dir name two data directories: --name ${name} stands for --data-dir ${defaultDataDir}-${name}. Use one of them; \`metadata.name\` of a cluster.yaml also names a cluster`,
      exitCodes.usage,
    );
  command.setOptionValueWithSource('dataDir', `${defaultDataDir}-${name}`, 'implied');
}

/** Checks the data directory of a command, unless a kubeconfig names the cluster. `oarlock doctor` examines a machine whatever is in the directory. */
async function checkOwnDataDir(command: Command): Promise<void> {
  const { dataDir: directory, kubeconfig: config } = command.opts<{ readonly dataDir?: string; readonly kubeconfig?: string }>();
  if (directory !== undefined && config === undefined && command.name() !== 'doctor') await checkDataDir(directory);
}

/** Parses the option `--feature-gates`. */
export function featureGates(text: string): Readonly<Record<string, boolean>> {
  try {
    return parseFeatureGates(text);
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message);
  }
}

export const file = () => new Option('-f, --file <file|composition>', 'cluster.yaml of the cluster, or the name of a ready composition');
export const namespace = (description: string) => new Option('-n, --namespace <namespace>', description).default('default');
/** The repeatable option `--server`. */
export const servers = (description: string) =>
  new Option('--server <url>', description).argParser((url: string, previous: readonly string[] | undefined) => [...(previous ?? []), url]);
/** `--kubeconfig` of commands that use a running cluster. */
export const kubeconfig = () => new Option('--kubeconfig <file>', 'kubeconfig of the cluster; default: that of its admin');
/** `--server` of a kubeconfig: URLs, separated by commas or repeated. */
export const serverList = () =>
  new Option('--server <urls>', 'URLs of API servers, comma separated: one context for each').argParser(
    (urls: string, previous: readonly string[] | undefined) => [...(previous ?? []), ...urls.split(',')],
  );

export function portNumber(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) throw new InvalidArgumentError('a port is an integer from 0 to 65535.');
  return port;
}

/** Parses the number of replicas of a Deployment. */
export function replicas(text: string): number {
  const count = Number(text);
  if (text === '' || !Number.isInteger(count) || count < 0 || count > 100)
    throw new InvalidArgumentError('replicas are an integer from 0 to 100.');
  return count;
}

/** Parses timeoutSeconds of a webhook, in the range that Kubernetes accepts. */
export function timeoutSeconds(text: string): number {
  const seconds = Number(text);
  if (!Number.isInteger(seconds) || seconds < 1 || seconds > 30)
    throw new InvalidArgumentError('a timeout is an integer from 1 to 30, in seconds.');
  return seconds;
}

/** Parses a time in seconds, from a second to a day. */
export function seconds(text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > 86_400)
    throw new InvalidArgumentError('a time is an integer from 1 to 86400, in seconds.');
  return value;
}

/** The default of `--timeout` of commands that query a running cluster. */
export const answerTimeoutSeconds = 30;

/** `--timeout` of commands that query a running cluster. */
export const answerTimeout = (defaultSeconds = answerTimeoutSeconds) =>
  new Option('--timeout <seconds>', 'time for the answers of the API server').default(defaultSeconds).argParser(seconds);

/** The default of `--timeout` of commands that work on the databases of etcd, whose size determines how long that takes. */
export const databaseTimeoutSeconds = 1800;

/** The default of `--timeout` of commands that open the storage of a stopped cluster: a member of etcd starts within seconds, or waits for the others. */
export const startTimeoutSeconds = 60;

/** `--timeout` of `oarlock backup`. */
export const backupTimeout = () =>
  new Option('--timeout <seconds>', 'time for each answer of a running cluster, or for the storage of a stopped one to start')
    .default(startTimeoutSeconds)
    .argParser(seconds);

/** `--timeout` of commands that open the storage of a stopped cluster. */
export const startTimeout = (defaultSeconds = startTimeoutSeconds) =>
  new Option('--timeout <seconds>', 'time for the storage of a stopped cluster to start, such as until etcd has a quorum')
    .default(defaultSeconds)
    .argParser(seconds);
