import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { mkdir, readdir, readFile, readlink } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { runProgram } from '@oarlock/primitives/os/run-program';
import { systemClock } from '@oarlock/primitives/clock';
import { findProgram, systemPath } from '@oarlock/process-supervisor/host/host-tools';
import { bootId, startTime } from '@oarlock/process-supervisor/host/process-table';
import { CommandError } from '../../common/command-error.ts';
import { gatewayAddress, uplinkNamespace } from './node-address.ts';
import { missingKernelModule, moduleScript } from './missing-kernel-module.ts';
import { holderScript, namespaceScript } from './namespace-script.ts';

/** The namespaces of a node without root, as its data directory keeps them. */
interface NamespaceRecord {
  readonly boot: string;
  readonly pid: number;
  readonly born: string;
  readonly links: NamespaceLinks;
}
type NamespaceLinks = Readonly<Record<'user' | 'mnt' | 'net', string>>;

export interface NodeNamespaces {
  /** Words in front of a command that runs on the node. */
  readonly enterNode: readonly string[];
  /** Words in front of a command that runs with the users and mounts of the node, and in the network of the host. */
  readonly enterMounts: readonly string[];
  /** Words in front of a command that runs in the network of the relay. */
  readonly enterUplink: readonly string[];
  /** How many users of the host the node has. */
  readonly users: 'range' | 'one';
  /** True if this call started the process that keeps the namespaces. */
  readonly isNew: boolean;
}

const timeoutMs = 30_000;
const programs = ['unshare', 'nsenter', 'setpriv', 'mount', 'umount', 'ip', 'nft', 'sleep'] as const;
const single = ['--user', '--map-root-user'];

/**
 * Returns the namespaces of the node of a data directory. They are created once and outlive Oarlock, like the pods in them; after a reboot, or when
 * everything in them was killed, new ones are created.
 * @throws CommandError if the machine does not permit them
 */
export async function openNodeNamespaces(directory: string): Promise<NodeNamespaces> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  requirePrograms();
  const file = join(directory, 'namespaces.json');
  const record = await readRecord(file);
  const member = record && (await findMember(record));
  if (member !== undefined && member === record?.pid) return describe(member, false);
  const script = member === undefined ? namespaceScript : holderScript;
  const pid = await startHolder(member === undefined ? await newNamespaces(directory) : enterAll(member), { script, directory });
  const links = await linksOf(pid);
  if (links === undefined) throw new CommandError('the process that holds the namespaces of the node ended');
  await writeAtomic(file, JSON.stringify({ boot: bootId(), pid, born: startTime(pid) ?? '', links } satisfies NamespaceRecord));
  return describe(pid, true);
}

/** Returns why this user's node cannot have namespaces of its own on this machine; undefined if it can. */
export async function namespaceProblem(): Promise<string | undefined> {
  try {
    requirePrograms();
    await userFlags();
    return undefined;
  } catch (error) {
    if (error instanceof CommandError) return error.message;
    throw error;
  }
}

function requirePrograms(): void {
  const missing = programs.filter((name) => findProgram(name) === undefined);
  if (missing.length > 0) throw new CommandError(`a node without root needs programs that are not installed: ${missing.join(', ')}`);
}

/** Ends the process that keeps the namespaces. They last as long as programs of the node run. */
export async function releaseNodeNamespaces(directory: string): Promise<void> {
  const record = await readRecord(join(directory, 'namespaces.json'));
  if (record !== undefined && startTime(record.pid) === record.born) kill(record.pid);
}

const tool = (name: (typeof programs)[number]): string => findProgram(name) ?? name;

const enter = (pid: number, ...kinds: readonly ('user' | 'mount' | 'net')[]): readonly string[] => [
  tool('nsenter'),
  ...['--target', String(pid), ...kinds.map((kind) => `--${kind}`), '--preserve-credentials', '--'],
];
const enterAll = (pid: number) => enter(pid, 'user', 'mount', 'net');

async function describe(pid: number, isNew: boolean): Promise<NodeNamespaces> {
  const maps = (await readFile(`/proc/${pid}/uid_map`, 'latin1')).trim().split('\n');
  return {
    enterNode: enterAll(pid),
    enterMounts: enter(pid, 'user', 'mount'),
    enterUplink: [...enterAll(pid), tool('nsenter'), `--net=/run/netns/${uplinkNamespace}`, '--'],
    users: maps.length > 1 ? 'range' : 'one',
    isNew,
  };
}

async function newNamespaces(directory: string): Promise<readonly string[]> {
  const flags = await userFlags();
  await writeAtomic(join(directory, 'resolv.conf'), await resolvConf(), { mode: 0o644 });
  return [tool('unshare'), ...flags, '--mount', '--net', '--propagation', 'slave', '--'];
}

async function readRecord(file: string): Promise<NamespaceRecord | undefined> {
  const text = await readIfExists(file);
  if (text === undefined) return undefined;
  const record = JSON.parse(text) as NamespaceRecord;
  return record.boot === bootId() ? record : undefined;
}

/**
 * Returns a process in the recorded namespaces: the holder or, if it was killed, another program of the node, such as a supervisor of containers. If none is
 * left, the processes that stayed in the user namespace cannot be reached any more, and are killed.
 */
async function findMember(record: NamespaceRecord): Promise<number | undefined> {
  if (startTime(record.pid) === record.born) return record.pid;
  const stranded: number[] = [];
  for (const name of await readdir('/proc')) {
    const pid = Number(name);
    const links = Number.isInteger(pid) ? await linksOf(pid) : undefined;
    if (links?.user !== record.links.user) continue;
    if (links.mnt === record.links.mnt && links.net === record.links.net) return pid;
    stranded.push(pid);
  }
  for (const pid of stranded) kill(pid);
  return undefined;
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Returns the namespaces of a process; undefined if it ended or belongs to another user. */
async function linksOf(pid: number): Promise<NamespaceLinks | undefined> {
  try {
    const [user = '', mnt = '', net = ''] = await Promise.all(['user', 'mnt', 'net'].map((kind) => readlink(`/proc/${pid}/ns/${kind}`)));
    return { user, mnt, net };
  } catch {
    return undefined;
  }
}

/** Returns the flags that map users: the ranges of /etc/subuid and /etc/subgid if newuidmap gives them, otherwise one user. @throws CommandError */
async function userFlags(): Promise<readonly string[]> {
  const attempt = async (flags: readonly string[]) => {
    const args = [...flags, '--mount', '--net', '--', '/bin/sh', '-c', `PATH=${systemPath}\n${moduleScript}`];
    const { exitCode, stderr } = await runProgram(systemClock, tool('unshare'), args, { timeoutMs });
    return exitCode === 0 ? undefined : stderr.trim();
  };
  if (findProgram('newuidmap') !== undefined && (await attempt([...single, '--map-auto'])) === undefined) return [...single, '--map-auto'];
  const failure = await attempt(single);
  if (failure === undefined) return single;
  const missing = missingKernelModule(failure);
  if (missing !== undefined) throw new CommandError(missing);
  throw new CommandError(
    `the kernel denies user and network namespaces to ordinary users (${failure.split('\n').at(-1)}); allow them with the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone=1 (Debian) or kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), or use the composition embedded`,
  );
}

/** The name server of the node is the gateway, which forwards to that of the host. */
async function resolvConf(): Promise<string> {
  const lines = ((await readIfExists('/etc/resolv.conf')) ?? '').split('\n').filter((line) => /^\s*(search|options)\s/.test(line));
  return [`nameserver ${gatewayAddress}`, ...lines, ''].join('\n');
}

/** Starts the process that keeps the namespaces, and returns its pid when the namespaces are ready. @throws CommandError with what failed */
async function startHolder(
  words: readonly string[],
  { script, directory }: { readonly script: string; readonly directory: string },
): Promise<number> {
  const [file = '', ...args] = [...words, '/bin/sh', '-c', script, 'oarlock-node', directory];
  const child = spawn(file, args, { detached: true, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    if (errors.length < 4096) errors += chunk.toString();
  });
  try {
    return await new Promise<number>((resolve, reject) => {
      const fail = (reason: string) => reject(new CommandError(`the namespaces of the node could not be prepared: ${reason.trim()}`));
      child.once('error', (error) => fail(error.message));
      child.once('close', (code) => fail(errors === '' ? `exit code ${code}` : errors));
      createInterface({ input: child.stdout }).once('line', (line) => {
        if (line === 'ready') resolve(child.pid ?? 0);
      });
    });
  } finally {
    child.removeAllListeners();
    child.stdout.destroy();
    child.stderr.destroy();
    child.unref();
  }
}
