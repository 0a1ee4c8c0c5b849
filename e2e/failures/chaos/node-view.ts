import { readdir, readFile, readlink, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { mustRun } from '../../harness/programs.ts';

/** The mounts and the network of a node, as a test sees them from the machine. */
export interface NodeView {
  /** Words in front of a command that runs on the node. */
  readonly enter: readonly string[];
  /** The root directory of the node. */
  readonly root: string;
  /** A process of the node. */
  readonly pid: number | 'self';
}

/** The node that root starts: the machine itself. */
export const nodeOfMachine: NodeView = { enter: [], root: '/', pid: 'self' };

/** The node of an ordinary user: namespaces of which `pid` is a member. */
export const nodeOfUser = (pid: number): NodeView => ({
  enter: ['nsenter', '--target', String(pid), '--user', '--mount', '--net', '--'],
  root: `/proc/${pid}/root`,
  pid,
});

export function runOnNode({ enter }: NodeView, command: readonly string[]): Promise<string> {
  const [file = '', ...args] = [...enter, ...command];
  return mustRun(file, args);
}

export const names = (directory: string) => readdir(directory).catch(() => []);

export async function mountsBelow({ pid }: NodeView, directory: string): Promise<number> {
  const mounts = (await readFile(`/proc/${pid}/mountinfo`, 'utf8')).split('\n').map((line) => line.split(' ')[4] ?? '');
  return mounts.filter((path) => path.startsWith(`${directory}/`)).length;
}

/** The processes of the machine. */
export const processes = async (): Promise<readonly number[]> => (await names('/proc')).filter((name) => /^\d+$/.test(name)).map(Number);

/** Returns the namespace of a process, or an empty text if it has ended. */
export const namespaceOf = (pid: number, kind: 'net' | 'user'): Promise<string> => readlink(`/proc/${pid}/ns/${kind}`).catch(() => '');

/** Returns the processes in the network namespaces of the node's pods. */
export async function processesInPods({ root }: NodeView): Promise<readonly number[]> {
  const directory = join(root, 'run/netns');
  // the namespace of the node's uplink has processes of the node
  const pods = (await names(directory))
    .filter((name) => name !== 'uplink')
    .map((name) => stat(join(directory, name)).catch(() => undefined));
  const inodes = new Set((await Promise.all(pods)).map((found) => `net:[${found?.ino}]`));
  const all = await processes();
  const links = await Promise.all(all.map((pid) => namespaceOf(pid, 'net')));
  return all.filter((_, index) => inodes.has(links[index] ?? ''));
}
