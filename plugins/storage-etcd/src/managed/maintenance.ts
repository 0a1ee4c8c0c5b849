import { errorText } from '@oarlock/primitives/error-text';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { StorageMember } from '@oarlock/spi/storage-server';
import { shouldDefragment } from '../client/member-health.ts';
import type { EtcdMembers } from './etcd-members.ts';

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
  readonly members: EtcdMembers;
  readonly server: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const [hourMs, checkIntervalMs] = [3_600_000, 60_000];

/** Takes scheduled snapshots, and defragments the members once a day if the server's own member leads. */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  #timer: Timer | undefined;
  #work: Promise<void> = Promise.resolve();
  #stopped = false;
  #defragmentedAt = 0;
  /** Milliseconds since the epoch of the last scheduled snapshot; 0 if none was written. */
  lastSnapshotAt = 0;
  /** Number of failed scheduled snapshots since the start. */
  snapshotFailures = 0;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#stopped) return;
    this.#timer = this.#options.clock.after(checkIntervalMs, () => {
      this.#work = this.run().finally(() => this.start());
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

  async #defragment(): Promise<void> {
    const { settings, members, server, clock, log } = this.#options;
    const now = clock.now();
    if (new Date(now).getUTCHours() !== settings.defragmentHour || now - this.#defragmentedAt < hourMs) return;
    const list = await members.list();
    const leads = list.some(({ name, role }) => name === server && role === 'Leader');
    // a member that is away would lack its quorum while another one copies its data
    if (!leads || !list.some(isFragmented) || list.some(({ role }) => role === 'Unknown')) return;
    this.#defragmentedAt = now;
    log.info({ members: await members.defragment() }, 'defragmented the etcd members');
  }
}

const isFragmented = ({ databaseBytes, databaseBytesInUse }: StorageMember): boolean => shouldDefragment(databaseBytes, databaseBytesInUse);
