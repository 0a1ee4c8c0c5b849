import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readIfExists, writeAtomic } from '@oarlock/primitives/os/atomic-file';
import { z } from 'zod';

const endpoints = z.array(z.string()).readonly();
const stateSchema = z.discriminatedUnion('state', [
  /** The member is one of a cluster; `endpoints` are the client URLs of all members, as far as they are known. */
  z.strictObject({ state: z.literal('member'), name: z.string(), endpoints }),
  /** The member has to join the cluster of the endpoints. `oarlock server join` writes this state. */
  z.strictObject({ state: z.literal('joining'), endpoints }),
  /**
   * The data has to be replaced by a snapshot, as the only member of a new cluster. `download` is the name of the snapshot in the store of copies, if the
   * file has to be downloaded first.
   */
  z.strictObject({ state: z.literal('restoring'), name: z.string(), snapshot: z.string(), download: z.string().optional() }),
  /**
   * The other members are lost: the data becomes that of the only member of a new cluster. `begun` is set before etcd runs: the reset cannot be undone
   * then.
   */
  z.strictObject({ state: z.literal('resetting'), name: z.string(), begun: z.literal(true).optional() }),
]);
export type MemberState = z.output<typeof stateSchema>;

/** The files of a member in the data directory of its plugin. */
export class MemberFiles {
  readonly directory: string;

  constructor(directory: string) {
    this.directory = directory;
  }

  /** `--data-dir` of etcd. */
  get data(): string {
    return join(this.directory, 'data');
  }
  get log(): string {
    return join(this.directory, 'etcd.log');
  }
  /** The default directory of snapshots. */
  get snapshots(): string {
    return join(this.directory, 'snapshots');
  }
  /** True if etcd has created its data, which it does when it starts for the first time. */
  get hasData(): boolean {
    return existsSync(join(this.data, 'member', 'wal'));
  }

  async create(): Promise<void> {
    await mkdir(this.directory, { recursive: true, mode: 0o700 });
  }

  /** Reads the state; undefined before the first start. @throws Error if the file is not valid */
  async read(): Promise<MemberState | undefined> {
    const text = await readIfExists(this.#file);
    if (text === undefined) return undefined;
    const parsed = stateSchema.safeParse(JSON.parse(text));
    if (!parsed.success) throw new Error(`${this.#file} is not valid: ${z.prettifyError(parsed.error)}`);
    return parsed.data;
  }

  async write(state: MemberState): Promise<void> {
    await this.create();
    await writeAtomic(this.#file, `${JSON.stringify(state)}\n`, { sync: true });
  }

  get #file(): string {
    return join(this.directory, 'member.json');
  }
}
