import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { isAbsentOrTruncated } from '@oarlock/primitives/os/file-error';
import type { ContainerConfig, ContainerStatus } from '@oarlock/spi/runtime';
import type { ContainerIsolation } from '../protocol/isolation.ts';
import type { SandboxRecord } from '../protocol/supervisor-protocol.ts';

/** A stored container: its status, and what is needed to start it, to exec in it and to identify its process. */
export interface ContainerRecord {
  readonly id: string;
  readonly sandboxId: string;
  readonly config: ContainerConfig;
  readonly state: ContainerStatus['state'];
  readonly createdAt: number;
  readonly logPath: string;
  readonly startedAt?: number;
  readonly finishedAt?: number;
  readonly exitCode?: number;
  readonly reason?: string;
  readonly message?: string;
  readonly pid?: number;
  /** The start time of the process, to distinguish it from a later one with the same pid. */
  readonly pidStarted?: string;
  readonly cgroup?: string;
  /** True if it has its own mount and UTS namespace without being isolated. */
  readonly namespaces?: boolean;
  /** Set if it is isolated from the node and from other pods. */
  readonly isolation?: ContainerIsolation;
  /** What the driver prepared for the launcher, such as the files of an image. */
  readonly prepared?: unknown;
  readonly imageRef?: string;
  readonly user?: ContainerStatus['user'];
}

export function statusOf({
  id,
  sandboxId,
  config,
  state,
  createdAt,
  logPath,
  startedAt,
  finishedAt,
  exitCode,
  reason,
  message,
  imageRef,
  user,
}: ContainerRecord): ContainerStatus {
  return {
    id,
    sandboxId,
    metadata: config.metadata,
    image: config.image.userSpecifiedImage ?? config.image.image,
    imageRef: imageRef ?? config.image.image,
    state,
    createdAt,
    labels: config.labels,
    annotations: config.annotations,
    mounts: config.mounts,
    logPath,
    ...(startedAt !== undefined && { startedAt }),
    ...(finishedAt !== undefined && { finishedAt }),
    ...(exitCode !== undefined && { exitCode }),
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
    ...(user !== undefined && { user }),
  };
}

export interface StoredPod {
  readonly sandbox: SandboxRecord;
  readonly containers: readonly ContainerRecord[];
}

const idPattern = /^[0-9a-f]{64}$/;
const partial = '.new';

/**
 * Stores sandboxes and containers on disk, one directory per sandbox, with mode 0600 because configs contain secrets of pods. Each file is
 * replaced as a whole. Writes are synchronous: a state is on disk before a response or an event reports it.
 */
export class PodStore {
  readonly #directory: string;
  constructor(dataDir: string) {
    this.#directory = join(dataDir, 'pods');
    mkdirSync(this.#directory, { recursive: true, mode: 0o700 });
  }

  /** Reads all records. A pod with truncated files (power failure) is removed and named in `broken`. @throws Error if a file cannot be read */
  load(): { readonly pods: readonly StoredPod[]; readonly broken: readonly string[] } {
    const pods: StoredPod[] = [];
    const broken: string[] = [];
    for (const id of readdirSync(this.#directory)) {
      try {
        if (!idPattern.test(id)) throw new SyntaxError('not a sandbox');
        const directory = join(this.#directory, id);
        const files = readdirSync(directory).filter((name) => name.endsWith('.json') && name !== 'sandbox.json');
        pods.push({
          sandbox: parse<SandboxRecord>(join(directory, 'sandbox.json')),
          containers: files.map((name) => parse<ContainerRecord>(join(directory, name))),
        });
      } catch (error) {
        if (!isAbsentOrTruncated(error)) throw error;
        broken.push(id);
        rmSync(join(this.#directory, id), { recursive: true, force: true });
      }
    }
    return { pods, broken };
  }

  saveSandbox(record: SandboxRecord): void {
    mkdirSync(join(this.#directory, record.id), { recursive: true, mode: 0o700 });
    this.#save(record.id, 'sandbox.json', record);
  }
  removeSandbox(id: string): void {
    rmSync(join(this.#directory, id), { recursive: true, force: true });
  }
  saveContainer(record: ContainerRecord): void {
    this.#save(record.sandboxId, `${record.id}.json`, record);
  }
  removeContainer({ id, sandboxId }: Pick<ContainerRecord, 'id' | 'sandboxId'>): void {
    rmSync(join(this.#directory, sandboxId, `${id}.json`), { force: true });
    rmSync(this.directoryOf({ id, sandboxId }), { recursive: true, force: true });
  }
  /** The directory for a container's own files. Not created here. */
  directoryOf({ id, sandboxId }: Pick<ContainerRecord, 'id' | 'sandboxId'>): string {
    return join(this.#directory, sandboxId, id);
  }

  /** The directory of a sandbox. Its containers share it. */
  directoryOfSandbox(sandboxId: string): string {
    return join(this.#directory, sandboxId);
  }

  #save(sandboxId: string, name: string, value: unknown): void {
    const path = join(this.#directory, sandboxId, name);
    writeFileSync(`${path}${partial}`, JSON.stringify(value), { mode: 0o600 });
    renameSync(`${path}${partial}`, path);
  }
}

function parse<T extends { readonly id: string }>(path: string): T {
  const value = JSON.parse(readFileSync(path, 'utf8')) as T;
  if (typeof value.id !== 'string' || !idPattern.test(value.id)) throw new SyntaxError(`no record in ${path}`);
  return value;
}

/** Returns true if a directory has pods of an earlier supervisor. */
export function hasPods(dataDir: string): boolean {
  try {
    return readdirSync(join(dataDir, 'pods')).length > 0;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
