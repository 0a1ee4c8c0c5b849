import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { RuntimeName } from './composition.ts';
import type { RunningDocker } from '../fixtures/docker.ts';
import type { SharedContainerd } from './machine.ts';
import { mustRun, processesBelow } from './programs.ts';

/** Running containers as seen from outside Oarlock: container id to process id and start time. */
export type Containers = ReadonlyMap<string, { readonly pid: number; readonly born: string }>;

async function birthOf(pid: number): Promise<string> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''; // starttime of proc(5), counted after the name
}

/** Where to look for a cluster's containers. `dir` is the cluster's directory, which identifies its process containers. */
export interface ContainerPlaces {
  readonly dir: string;
  readonly containerd?: SharedContainerd | undefined;
  readonly docker?: RunningDocker | undefined;
}

export async function containersOf(runtime: RuntimeName, { dir, containerd, docker }: ContainerPlaces): Promise<Containers> {
  if (runtime === 'simulated') return new Map();
  if (runtime === 'process') return processes(dir);
  if (runtime === 'oci') return ociContainers(dir);
  return runtime === 'docker' ? engineContainers(docker) : tasks(containerd?.socket ?? '');
}

async function engineContainers(docker: RunningDocker | undefined): Promise<Containers> {
  const found = new Map<string, { pid: number; born: string }>();
  for (const [id, pid] of (await docker?.containers()) ?? []) {
    const born = pid === undefined ? undefined : await birthOf(pid).catch(() => undefined);
    if (pid !== undefined && born !== undefined) found.set(id, { pid, born });
  }
  return found;
}

async function tasks(socket: string): Promise<Containers> {
  const text = await mustRun('/usr/bin/ctr', ['--address', socket, '--namespace', 'k8s.io', 'tasks', 'ls']);
  const found = new Map<string, { pid: number; born: string }>();
  for (const line of text.split('\n').slice(1)) {
    const [id, pid, state] = line.trim().split(/\s+/);
    if (id === undefined || pid === undefined || state !== 'RUNNING') continue;
    const born = await birthOf(Number(pid)).catch(() => undefined);
    if (born !== undefined) found.set(id, { pid: Number(pid), born });
  }
  return found;
}

/** Where runtime-oci lets runc keep its state, below the directory of a cluster. */
const runcState = 'data/plugins/runtime-oci/state';

interface StoredContainer {
  readonly id: string;
  readonly pid?: number;
  readonly pidStarted?: string;
}

/** The containers of runtime-oci in any mode whose first processes live, as its files name them. */
export async function ociContainers(dir: string): Promise<Containers> {
  const pods = join(dir, 'data/plugins/runtime-oci/pods');
  const found = new Map<string, { pid: number; born: string }>();
  for (const pod of await readdir(pods).catch(() => [])) {
    const files = (await readdir(join(pods, pod)).catch(() => [])).filter((name) => /^[0-9a-f]{64}\.json$/.test(name));
    for (const file of files) {
      // both may be removed meanwhile
      const text = await readFile(join(pods, pod, file), 'utf8').catch(() => '{}');
      const { id = '', pid = 0, pidStarted } = JSON.parse(text) as Partial<StoredContainer>;
      const born = await birthOf(pid).catch(() => undefined);
      if (born !== undefined && born === pidStarted) found.set(id, { pid, born });
    }
  }
  return found;
}

/** The oldest process that carries a container's mark is the container's main process. */
async function processes(dir: string): Promise<Containers> {
  const found = new Map<string, { pid: number; born: string }>();
  for (const pid of await processesBelow(dir)) {
    const id = /(?:^|\0)OARLOCK_CONTAINER=([^\0]+)/.exec(await readFile(`/proc/${pid}/environ`, 'latin1').catch(() => ''))?.[1];
    const born = await birthOf(pid).catch(() => undefined);
    if (id === undefined || born === undefined) continue;
    const known = found.get(id);
    if (known === undefined || Number(born) < Number(known.born) || (born === known.born && pid < known.pid)) found.set(id, { pid, born });
  }
  return found;
}

/** Returns all sandboxes and containers that the runtime still has, stopped ones included. */
export async function remains(
  runtime: RuntimeName,
  { dir, containerd, docker, bridge }: ContainerPlaces & { readonly bridge?: string | undefined },
): Promise<readonly string[]> {
  const left: string[] = [];
  if (runtime === 'containerd')
    left.push(
      ...(await mustRun('/usr/bin/ctr', ['--address', containerd?.socket ?? '', '--namespace', 'k8s.io', 'containers', 'ls', '-q']))
        .split('\n')
        .filter((id) => id !== '')
        .map((id) => `container ${id}`),
    );
  else if (runtime === 'docker') left.push(...[...((await docker?.containers()) ?? new Map()).keys()].map((id) => `container ${id}`));
  else if (runtime === 'oci') left.push(...(await readdir(join(dir, runcState)).catch(() => [])).map((id) => `container ${id}`));
  else left.push(...[...(await processes(dir)).keys()].map((id) => `process container ${id}`));
  if (bridge !== undefined) {
    const ports = await readdir(`/sys/class/net/${bridge}/brif`).catch(() => []);
    const cables = (await readFile('/proc/net/dev', 'utf8')).split('\n').map((line) => line.trim().split(':')[0] ?? '');
    left.push(
      ...[...ports, ...cables.filter((name) => /^ct\d+$/.test(bridge) && name.startsWith(bridge))].map((port) => `interface ${port}`),
    );
  }
  return left;
}
