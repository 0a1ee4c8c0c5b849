import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync, type Stats } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import type { Credentials } from './privileges.ts';
import { SupervisorError } from '@oarlock/process-supervisor/protocol/supervisor-protocol';
import { isExecutable, type Tools } from '@oarlock/process-supervisor/host/host-tools';

/** What the environment of a container is computed from. */
export interface EnvironmentSources {
  readonly config: ContainerConfig;
  readonly sandbox: PodSandboxConfig;
}

/**
 * Returns a clean environment: what a shell needs, then the pod's variables, then the variables that locate the pod's volumes.
 * `OARLOCK_ROOT` is empty if volumes are mounted, otherwise a tree of links: `$OARLOCK_ROOT/etc/config` works in both cases. `volumePaths` are
 * the paths at which the container finds its volumes, if they differ from those of the node.
 */
export function environmentOf(
  containerId: string,
  { config, sandbox }: EnvironmentSources,
  {
    path,
    root,
    home,
    volumePaths,
    kubeconfig,
  }: {
    readonly path: string;
    readonly root: string;
    readonly home: string;
    readonly volumePaths?: readonly string[] | undefined;
    /** A kubeconfig with the pod's service account, if its token is not mounted. */
    readonly kubeconfig?: string | undefined;
  },
): Record<string, string> {
  const environment: Record<string, string> = {
    PATH: path,
    HOME: home,
    HOSTNAME: sandbox.hostname,
    ...(config.tty && { TERM: 'xterm' }),
    ...(kubeconfig !== undefined && { KUBECONFIG: kubeconfig }),
  };
  for (const { key, value } of config.envs) environment[key] = value;
  environment['OARLOCK_ROOT'] = root;
  for (const [index, { containerPath, hostPath }] of config.mounts.entries())
    environment[`OARLOCK_MOUNT_${index}`] = `${containerPath}:${volumePaths?.[index] ?? hostPath}`;
  environment['OARLOCK_CONTAINER'] = containerId;
  return environment;
}

/** Writes the files of a container that container runtimes create. Returns their paths by the paths that the container sees. */
export function writeContainerFiles(sandbox: PodSandboxConfig, directory: string): Readonly<Record<string, string>> {
  const resolver = writeResolverFile(sandbox, directory);
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  const hostname = join(directory, 'hostname');
  writeFileSync(hostname, `${sandbox.hostname}\n`, { mode: 0o644 });
  return { '/etc/hostname': hostname, ...(resolver !== undefined && { '/etc/resolv.conf': resolver }) };
}

/** Writes the pod's DNS config to a file in the container's directory. Returns the path of the file; undefined if the pod has no DNS config. */
function writeResolverFile({ dns }: PodSandboxConfig, directory: string): string | undefined {
  if (!dns || (dns.servers.length === 0 && dns.searches.length === 0 && dns.options.length === 0)) return undefined;
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  const file = join(directory, 'resolv.conf');
  const lines = [
    dns.searches.length > 0 ? `search ${dns.searches.join(' ')}` : '',
    ...dns.servers.map((server) => `nameserver ${server}`),
    dns.options.length > 0 ? `options ${dns.options.join(' ')}` : '',
  ];
  writeFileSync(
    file,
    lines
      .filter((line) => line !== '')
      .map((line) => `${line.replaceAll('\n', ' ')}\n`)
      .join(''),
    { mode: 0o644 },
  );
  return file;
}

/** Creates links in place of mounts in the container's own directory. Omits a mount inside another mount, which cannot be linked. */
export function linkMounts(config: ContainerConfig, directory: string): string {
  const root = join(directory, 'root');
  mkdirSync(root, { recursive: true, mode: 0o755 });
  const linked: string[] = [];
  for (const { containerPath, hostPath } of [...config.mounts].sort((a, b) => a.containerPath.length - b.containerPath.length)) {
    const mountPoint = resolve('/', containerPath);
    if (mountPoint === '/' || linked.some((above) => mountPoint === above || mountPoint.startsWith(`${above}/`))) continue; // the link would be created inside a volume
    mkdirSync(dirname(join(root, mountPoint)), { recursive: true, mode: 0o755 });
    symlinkSync(hostPath, join(root, mountPoint));
    linked.push(mountPoint);
  }
  return root;
}

const serviceAccountPath = '/var/run/secrets/kubernetes.io/serviceaccount';

/**
 * Writes a kubeconfig for a container whose service account token is linked instead of mounted: clients that look for in-cluster credentials look
 * only at the standard path. Returns the path of the file; undefined for a container without a token.
 */
export function writeKubeconfig(config: ContainerConfig, sandbox: PodSandboxConfig, directory: string): string | undefined {
  const volume = config.mounts.find(({ containerPath }) => resolve('/', containerPath) === serviceAccountPath)?.hostPath;
  const variable = (name: string) => config.envs.find(({ key }) => key === name)?.value;
  const [host, port] = [variable('KUBERNETES_SERVICE_HOST'), variable('KUBERNETES_SERVICE_PORT')];
  if (volume === undefined || host === undefined || port === undefined) return undefined;
  mkdirSync(directory, { recursive: true, mode: 0o755 });
  const file = kubeconfigPath(directory);
  const server = `https://${host.includes(':') ? `[${host}]` : host}:${port}`;
  const name = 'in-cluster';
  const content = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server, 'certificate-authority': join(volume, 'ca.crt') } }],
    users: [{ name, user: { tokenFile: join(volume, 'token') } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: sandbox.metadata.namespace } }],
    'current-context': name,
  };
  writeFileSync(file, `${JSON.stringify(content)}\n`, { mode: 0o644 });
  return file;
}

export const kubeconfigPath = (directory: string) => join(directory, 'kubeconfig');

/** Returns the credentials of a container. @throws SupervisorError if the supervisor cannot switch to its user or group */
export function credentialsOf(
  { linux }: Pick<ContainerConfig, 'linux'>,
  { root }: Pick<Tools, 'root'>,
): Credentials & { readonly home: string } {
  const { runAsUser, runAsGroup, runAsUsername, supplementalGroups = [], noNewPrivs, capabilities, privileged } = linux.security;
  const known =
    runAsUsername !== undefined && runAsUsername !== '' && runAsUser === undefined
      ? accounts().find(({ name }) => name === runAsUsername)
      : undefined;
  if (runAsUsername !== undefined && runAsUsername !== '' && runAsUser === undefined && !known)
    throw new SupervisorError('InvalidArgument', `there is no user ${runAsUsername} on this host`);
  const uid = runAsUser ?? known?.uid;
  const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const account = uid === undefined ? undefined : accounts().find((entry) => entry.uid === uid);
  const gid = runAsGroup ?? (uid === undefined || uid === own.uid ? undefined : (account?.gid ?? 0));
  if (!root && uid !== undefined && uid !== own.uid)
    throw new SupervisorError(
      'FailedPrecondition',
      `a process container cannot run as user ${uid}: Oarlock runs as user ${own.uid}, and only root can switch`,
    );
  if (!root && runAsGroup !== undefined && runAsGroup !== own.gid)
    throw new SupervisorError(
      'FailedPrecondition',
      `a process container cannot run as group ${runAsGroup}: Oarlock runs as group ${own.gid}, and only root can switch`,
    );
  const switches =
    root && ((uid !== undefined && uid !== own.uid) || (gid !== undefined && gid !== own.gid) || supplementalGroups.length > 0);
  return {
    ...(switches && { uid: uid ?? own.uid, gid: gid ?? own.gid }),
    groups: switches ? supplementalGroups : [],
    noNewPrivileges: noNewPrivs === true && privileged !== true,
    ...(capabilities && privileged !== true && { capabilities }),
    home: uid === undefined || uid === own.uid ? homedir() : (account?.home ?? '/'),
  };
}

interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly home: string;
}
function accounts(): Account[] {
  return readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [name = '', , uid, gid, , home = '/'] = line.split(':');
      return { name, uid: Number(uid), gid: Number(gid), home };
    });
}

/** Returns why a command cannot be run, in the words of common runtimes; undefined if it can be run or if only an attempt will show. */
export function checkExecutable(
  program: string,
  {
    path,
    directory,
    mounts,
    hides = () => false,
  }: {
    readonly path: string;
    readonly directory: string;
    readonly mounts: readonly { readonly to: string }[];
    /** Returns true for paths of the node that the container does not see. */
    readonly hides?: ((path: string) => boolean) | undefined;
  },
): string | undefined {
  const isInMount = (full: string) => mounts.some(({ to }) => full.startsWith(`${to}/`) || full === to);
  if (!program.includes('/')) {
    const found = path.split(':').some((entry) => {
      const full = resolve(directory, entry, program);
      return isRunnable(full) && (!hides(full) || isInMount(full));
    });
    return found ? undefined : `exec: ${JSON.stringify(program)}: executable file not found in $PATH`;
  }
  const full = resolve(directory, program);
  if (isInMount(full) || (isRunnable(full) && !hides(full))) return undefined;
  const found = hides(full) ? undefined : statOrUndefined(full);
  return `exec: ${JSON.stringify(program)}: ${found === undefined ? `stat ${program}: no such file or directory` : found.isDirectory() ? 'is a directory' : 'permission denied'}`;
}
const isRunnable = (path: string) => isExecutable(path) && statOrUndefined(path)?.isFile() === true;

function statOrUndefined(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined; // a parent directory is not accessible
  }
}
