import { mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync, type Stats } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve, sep } from 'node:path';
import type { ContainerConfig, PodSandboxConfig } from '@oarlock/spi/runtime';
import type { BindMount, Credentials } from './launch.ts';
import { Refusal } from './protocol.ts';
import { isExecutable, type Tools } from './tools.ts';

/** The setting that tells whose a process is, wherever it has gone. */
export const marker = (containerId: string) => `OARLOCK_CONTAINER=${containerId}`;

/**
 * A clean environment: what a shell needs, how to find the pod's volumes, then what the pod says.
 * `OARLOCK_ROOT` is empty where volumes are mounted for real, else a tree of links: `$OARLOCK_ROOT/etc/config` is right in both cases.
 */
export function environmentOf(
  containerId: string,
  config: ContainerConfig,
  sandbox: PodSandboxConfig,
  { path, root, home }: { readonly path: string; readonly root: string; readonly home: string },
): Record<string, string> {
  const environment: Record<string, string> = { PATH: path, HOME: home, HOSTNAME: sandbox.hostname, ...(config.tty && { TERM: 'xterm' }) };
  for (const { key, value } of config.envs) environment[key] = value;
  environment['OARLOCK_ROOT'] = root;
  for (const [index, { containerPath, hostPath }] of config.mounts.entries())
    environment[`OARLOCK_MOUNT_${index}`] = `${containerPath}:${hostPath}`;
  environment['OARLOCK_CONTAINER'] = containerId;
  return environment;
}

/** Mounts whose place exists; the others would have to be made in the host's file system, which is not ours. */
export function bindMounts(
  config: ContainerConfig,
  sandbox: PodSandboxConfig,
  directory: string,
): { readonly mounts: readonly BindMount[]; readonly complete: boolean } {
  const wanted: BindMount[] = config.mounts.map(({ containerPath, hostPath, readonly }) => ({
    from: hostPath,
    to: resolve('/', containerPath),
    readonly: readonly === true,
  }));
  const { dns } = sandbox;
  if (dns && (dns.servers.length > 0 || dns.searches.length > 0 || dns.options.length > 0)) {
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
    wanted.unshift({ from: file, to: '/etc/resolv.conf', readonly: false });
  }
  const mounts = wanted.filter(({ from, to }) => {
    const [source, target] = [look(from), look(to)];
    return to !== '/' && source !== undefined && target !== undefined && source.isDirectory() === target.isDirectory();
  });
  // one below another comes after it
  return {
    mounts: mounts.sort((a, b) => a.to.split(sep).length - b.to.split(sep).length),
    complete: config.mounts.every(({ containerPath }) => mounts.some(({ to }) => to === resolve('/', containerPath))),
  };
}

/** Links that stand for mounts, below a directory of the container's own. A mount below another's place cannot be linked and is left out. */
export function linkMounts(config: ContainerConfig, directory: string): string {
  const root = join(directory, 'root');
  mkdirSync(root, { recursive: true, mode: 0o755 });
  const linked: string[] = [];
  for (const { containerPath, hostPath } of [...config.mounts].sort((a, b) => a.containerPath.length - b.containerPath.length)) {
    const place = resolve('/', containerPath);
    if (place === '/' || linked.some((above) => place === above || place.startsWith(`${above}/`))) continue; // it would be made inside a volume
    mkdirSync(dirname(join(root, place)), { recursive: true, mode: 0o755 });
    symlinkSync(hostPath, join(root, place));
    linked.push(place);
  }
  return root;
}

/** @throws Refusal when the container wants to be somebody whom the supervisor cannot become */
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
    throw new Refusal('InvalidArgument', `there is no user ${runAsUsername} on this host`);
  const uid = runAsUser ?? known?.uid;
  const own = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const account = uid === undefined ? undefined : accounts().find((one) => one.uid === uid);
  const gid = runAsGroup ?? (uid === undefined || uid === own.uid ? undefined : (account?.gid ?? 0));
  if (!root && uid !== undefined && uid !== own.uid)
    throw new Refusal(
      'FailedPrecondition',
      `a process container cannot run as user ${uid}: Oarlock runs as user ${own.uid}, and only root can switch`,
    );
  if (!root && runAsGroup !== undefined && runAsGroup !== own.gid)
    throw new Refusal(
      'FailedPrecondition',
      `a process container cannot run as group ${runAsGroup}: Oarlock runs as group ${own.gid}, and only root can switch`,
    );
  const other = root && ((uid !== undefined && uid !== own.uid) || (gid !== undefined && gid !== own.gid) || supplementalGroups.length > 0);
  return {
    ...(other && { uid: uid ?? own.uid, gid: gid ?? own.gid }),
    groups: other ? supplementalGroups : [],
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

/** Why a command cannot be run, in the words of the usual runtimes; undefined when it can, or when only the run will tell. */
export function whyNotRunnable(
  program: string,
  { path, directory, mounts }: { readonly path: string; readonly directory: string; readonly mounts: readonly BindMount[] },
): string | undefined {
  if (!program.includes('/')) {
    const found = path.split(':').some((entry) => isRunnable(join(entry === '' ? directory : entry, program)));
    return found ? undefined : `exec: ${JSON.stringify(program)}: executable file not found in $PATH`;
  }
  const full = resolve(directory, program);
  if (mounts.some(({ to }) => full.startsWith(`${to}/`) || full === to) || isRunnable(full)) return undefined;
  const found = look(full);
  return `exec: ${JSON.stringify(program)}: ${found === undefined ? `stat ${program}: no such file or directory` : found.isDirectory() ? 'is a directory' : 'permission denied'}`;
}
const isRunnable = (path: string) => isExecutable(path) && look(path)?.isFile() === true;

function look(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined; // behind a directory that is closed to us
  }
}
