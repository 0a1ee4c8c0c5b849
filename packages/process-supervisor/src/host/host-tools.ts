import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const directories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];
/** The default PATH of containers. */
export const systemPath = directories.join(':');

export function findProgram(name: string): string | undefined {
  return directories.map((directory) => join(directory, name)).find(isExecutable);
}
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The programs and rights that are available to run containers. Paths are absolute, so that a pod's PATH does not affect its wrappers. */
export interface Tools {
  readonly root: boolean;
  readonly shell: string;
  readonly env: string | undefined;
  readonly mkfifo: string | undefined;
  readonly mount: string | undefined;
  readonly umount: string | undefined;
  readonly pivotRoot: string | undefined;
  readonly hostname: string | undefined;
  readonly nsenter: string | undefined;
  readonly unshare: string | undefined;
  readonly setpriv: string | undefined;
  readonly setsid: string | undefined;
  readonly stat: string | undefined;
  /** util-linux's, which works without a terminal of its own. */
  readonly script: string | undefined;
  readonly stty: string | undefined;
  /** True if containers get their own mount and UTS namespace. */
  readonly namespaces: boolean;
}

/** Returns true for root with the capabilities to create namespaces; root in a container usually lacks them. */
export function canMakeNamespaces(): boolean {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false;
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`);
  const admin = 1n << 21n;
  const netAdmin = 1n << 12n;
  return (capabilities & admin) !== 0n && (capabilities & netAdmin) !== 0n;
}

/** Finds the programs. Runs `unshare` once to check whether it is permitted. */
export async function findTools({ namespaces }: { readonly namespaces: boolean }): Promise<Tools> {
  const linux = process.platform === 'linux';
  const root = process.getuid?.() === 0;
  const find = (name: string) => (linux ? findProgram(name) : undefined);
  const [unshare, mount, umount, pivotRoot, stat] = ['unshare', 'mount', 'umount', 'pivot_root', 'stat'].map(find);
  const found = unshare !== undefined && [mount, umount, pivotRoot, stat].every((program) => program !== undefined);
  const possible = namespaces && found && canMakeNamespaces();
  const allowed =
    possible &&
    (await promisify(execFile)(unshare, [...namespaceFlags, '--', findProgram('true') ?? '/bin/true'], { timeout: 5000 }).then(
      () => true,
      () => false,
    ));
  return {
    root,
    shell: '/bin/sh',
    env: findProgram('env'),
    mkfifo: findProgram('mkfifo'),
    mount,
    umount,
    pivotRoot,
    hostname: find('hostname'),
    unshare,
    namespaces: allowed,
    nsenter: find('nsenter'),
    setpriv: find('setpriv'),
    stat,
    setsid: find('setsid'),
    script: existsSync('/dev/ptmx') ? find('script') : undefined,
    stty: findProgram('stty'),
  };
}

/** The container's mounts stay inside its namespace; new mounts of the host propagate into it. */
export const namespaceFlags = ['--mount', '--uts', '--propagation', 'slave'] as const;

/** Returns notes for `status` about what containers do not get on this machine. `noIsolation` is the reason why they are not isolated. */
export function limitationNotes(
  tools: Tools,
  { cgroups, noIsolation }: { readonly cgroups: boolean; readonly noIsolation: string | undefined },
): readonly string[] {
  return [
    ...(noIsolation === undefined ? [] : [`containers run without isolation: ${noIsolation}`]),
    ...(tools.namespaces || noIsolation === undefined ? [] : ['volumes are not mounted: containers find them below $OARLOCK_ROOT']),
    ...(cgroups ? [] : ['resource limits are not enforced']),
    ...(tools.root ? [] : ['containers run as the user of this process']),
    ...(tools.script === undefined ? ['terminals are not supported'] : []),
  ];
}
