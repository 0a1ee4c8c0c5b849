import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';

const directories = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];
/** Where containers look for programs when they say nothing else. */
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

/** What of the operating system containers can be given here. Paths are absolute: a pod's PATH has no say in how it is wrapped. */
export interface Tools {
  readonly root: boolean;
  readonly shell: string;
  readonly env: string | undefined;
  readonly mkfifo: string | undefined;
  readonly mount: string | undefined;
  readonly nsenter: string | undefined;
  readonly unshare: string | undefined;
  readonly setpriv: string | undefined;
  /** util-linux's, which can do without a terminal of its own. */
  readonly script: string | undefined;
  readonly stty: string | undefined;
  /** Whether containers get a mount and a host name namespace of their own. */
  readonly namespaces: boolean;
}

/** Root, and allowed to make namespaces: root in a container usually is not. */
export function canMakeNamespaces(): boolean {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false;
  const capabilities = BigInt(`0x${/^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '0'}`);
  const admin = 1n << 21n;
  const netAdmin = 1n << 12n;
  return (capabilities & admin) !== 0n && (capabilities & netAdmin) !== 0n;
}

/** Looks once; runs `unshare` to see whether it may. */
export async function findTools({ namespaces }: { readonly namespaces: boolean }): Promise<Tools> {
  const linux = process.platform === 'linux';
  const root = process.getuid?.() === 0;
  const [unshare, mount] = linux ? [findProgram('unshare'), findProgram('mount')] : [];
  const can = namespaces && unshare !== undefined && mount !== undefined && canMakeNamespaces();
  const allowed =
    can &&
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
    unshare,
    namespaces: allowed,
    nsenter: linux ? findProgram('nsenter') : undefined,
    setpriv: linux ? findProgram('setpriv') : undefined,
    script: linux && existsSync('/dev/ptmx') ? findProgram('script') : undefined,
    stty: findProgram('stty'),
  };
}

/** Mounts inside stay inside; mounts of the host come in. */
export const namespaceFlags = ['--mount', '--uts', '--propagation', 'slave'] as const;

/** What the wishes of pods come to nothing here, in words for `status`. */
export function notesOf(tools: Tools, cgroups: boolean): readonly string[] {
  return [
    ...(tools.namespaces ? [] : ['volumes are not mounted: containers find them below $OARLOCK_ROOT']),
    ...(cgroups ? [] : ['resource limits are not enforced']),
    ...(tools.root ? [] : ['containers run as the user of this process']),
    ...(tools.script === undefined ? ['there are no terminals'] : []),
  ];
}
