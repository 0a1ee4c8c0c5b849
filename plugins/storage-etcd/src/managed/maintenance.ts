import { errorText } from '@oarlock/primitives/error-text';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { shouldDefragment } from '../client/member-health.ts';
import { defragmentOrder, type EtcdMembers } from './etcd-members.ts';
import { isHealthy } from './member-health.ts';

export interface MaintenanceSettings {
  /** Hours between two scheduled snapshots; 0 for none. */
  readonly snapshotHours: number;
  /** Number of scheduled snapshots that are kept. */
  readonly retention: number;
  /** Hour of the day (UTC) in which members are defragmented; undefined for never. */
  readonly defragmentHour: number | undefined;
}

export interface MaintenanceOptions {
  readonly settings: MaintenanceSettings;
  /** The space quota of the members. */
  readonly quotaBytes: number;
  readonly members: EtcdMembers;
  readonly server: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const [hourMs, checkIntervalMs] = [3_600_000, 60_000];
/** The longest delay after failed uploads: each of them may send the whole snapshot. */
const longestUploadDelayMs = hourMs;

/** Takes scheduled snapshots, uploads them, and defragments the members once a day. */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  #timer: Timer | undefined;
  #work: Promise<void> = Promise.resolve();
  #stopped = false;
  /** Monotonic times of the last defragmentation, by member. */
  readonly #defragmentedAt = new Map<string, number>();
  /** Why members are not defragmented now. */
  #obstacle: string | undefined;
  #uploaded: string | undefined;
  /** Monotonic time of the next upload. */
  #uploadAt = 0;
  #failedUploads = 0;
  /** Milliseconds since the epoch of the last scheduled snapshot; 0 if none was written. */
  lastSnapshotAt = 0;
  /** Number of failed scheduled snapshots since the start. */
  snapshotFailures = 0;
  /** Number of failed uploads of scheduled snapshots since the start. */
  uploadFailures = 0;
  /** Milliseconds since the epoch at which the newest snapshot in the store of copies was written; undefined until a check has found or uploaded one. */
  lastUploadedAt: number | undefined;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  /** Starts the checks. Resolves when the time of the last scheduled snapshot is known. */
  async start(): Promise<void> {
    const { members, log } = this.#options;
    this.lastSnapshotAt = await members.snapshots.lastScheduledAt().catch((error: unknown) => {
      log.error({ error: errorText(error) }, 'the snapshots cannot be listed');
      return 0;
    });
    this.#schedule();
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = this.#options.clock.after(checkIntervalMs, () => {
      this.#work = this.run().finally(() => this.#schedule());
    });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timer?.cancel();
    await this.#work;
  }

  /** Does what is due. A failure is logged, and tried again at the next check. */
  async run(): Promise<void> {
    const { log } = this.#options;
    await this.#snapshot().catch((error: unknown) => {
      this.snapshotFailures += 1;
      log.error({ error: errorText(error) }, 'the scheduled snapshot could not be written');
    });
    await this.#upload().catch((error: unknown) => this.#uploadFailed(error));
    await this.#defragment().catch((error: unknown) => log.warn({ error: errorText(error) }, 'the etcd members could not be defragmented'));
  }

  async #snapshot(): Promise<void> {
    const { settings, members, clock, log, signal } = this.#options;
    const { snapshotHours, retention } = settings;
    if (snapshotHours === 0) return;
    this.lastSnapshotAt = await members.snapshots.lastScheduledAt();
    if (clock.now() - this.lastSnapshotAt < snapshotHours * hourMs) return;
    const { name, bytes } = await members.snapshots.saveScheduled(signal, retention);
    this.lastSnapshotAt = clock.now();
    log.info({ name, bytes }, 'wrote a scheduled snapshot');
  }

  /** Uploads the newest scheduled snapshot unless the store has it. */
  async #upload(): Promise<void> {
    const { members, clock, log, signal } = this.#options;
    const newest =
      members.remote === undefined || clock.monotonic() < this.#uploadAt ? undefined : await members.snapshots.newestScheduled();
    if (members.remote === undefined || newest === undefined || newest.name === this.#uploaded) return;
    if (!(await members.remote.has(newest.name, signal))) {
      await members.remote.save(newest, signal);
      log.info({ name: newest.name, bytes: newest.bytes }, 'uploaded a scheduled snapshot');
    }
    this.#uploaded = newest.name;
    this.#failedUploads = 0;
    this.lastUploadedAt = Date.parse(newest.createdAt);
  }

  #uploadFailed(error: unknown): void {
    const { clock, log, signal } = this.#options;
    if (signal.aborted) return;
    this.uploadFailures += 1;
    const delayMs = Math.min(longestUploadDelayMs, checkIntervalMs * 2 ** this.#failedUploads);
    this.#failedUploads += 1;
    this.#uploadAt = clock.monotonic() + delayMs;
    log.error({ error: errorText(error), retryMs: delayMs }, 'the scheduled snapshot could not be uploaded');
  }

  /** Defragments fragmented members in their hour, one after the other, while this server's member leads and every member is healthy. */
  async #defragment(): Promise<void> {
    const { settings, members, server, clock, log } = this.#options;
    while (new Date(clock.now()).getUTCHours() === settings.defragmentHour) {
      const list = await members.list();
      const next = defragmentOrder(list).find((member) => this.#isDue(member));
      if (next === undefined || !list.some(({ name, role }) => name === server && role === 'Leader')) return;
      // the members lack their quorum more easily while one of them copies its data
      const unhealthy = list.find((member) => !isHealthy(member));
      this.#setObstacle(unhealthy && `${unhealthy.name || unhealthy.id} is not healthy`);
      if (unhealthy !== undefined) return;
      this.#defragmentedAt.set(next.id, clock.monotonic());
      await members.defragmentMember(next);
      log.info({ member: next.name, bytes: next.databaseBytes, bytesInUse: next.databaseBytesInUse }, 'defragmented an etcd member');
    }
  }

  #isDue({ id, databaseBytes, databaseBytesInUse }: StorageMember): boolean {
    const { clock, quotaBytes } = this.#options;
    const last = this.#defragmentedAt.get(id) ?? Number.NEGATIVE_INFINITY;
    return clock.monotonic() - last >= hourMs && shouldDefragment(databaseBytes, databaseBytesInUse, quotaBytes);
  }

  #setObstacle(obstacle: string | undefined): void {
    if (obstacle !== undefined && obstacle !== this.#obstacle)
      this.#options.log.warn({ reason: obstacle }, 'the etcd members are not defragmented now');
    this.#obstacle = obstacle;
  }
}
