import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Revision, StorageDriver } from '@oarlock/spi/storage';
import type { StorageMember } from '@oarlock/spi/storage-server';
import type { ManagedMember } from './managed-member.ts';
import { restartObstacle } from './member-health.ts';

/** Storage key of the lock that the server holds whose member is restarted. */
const lockKey = '/oarlock/etcd-restart';
/** The lock of a server that has ended expires after this time; its member then counts as unhealthy if it does not run. */
const lockSeconds = 60;
const renewMs = 15_000;
const pollMs = 500;

export interface AuthorityRolloutOptions {
  readonly storage: Pick<StorageDriver, 'get' | 'commit'>;
  readonly member: () => Pick<ManagedMember, 'certificates' | 'command' | 'restart'>;
  readonly list: () => Promise<readonly StorageMember[]>;
  readonly server: string;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Makes the running member of this server trust the CAs in its files, which needs a restart: of all members one at a time, between healthy ones. */
export class AuthorityRollout {
  readonly #options: AuthorityRolloutOptions;
  #obstacle: string | undefined;

  constructor(options: AuthorityRolloutOptions) {
    this.#options = options;
  }

  /** Resolves when the member serves with the CAs and all members are healthy. @throws the reason of the signal */
  async run(signal: AbortSignal): Promise<void> {
    const { member, clock, log } = this.#options;
    const { certificates } = member();
    await certificates.issue();
    while (!certificates.isTrustLoadedBy(member().command)) {
      signal.throwIfAborted();
      const obstacle = restartObstacle(await this.#options.list());
      if (obstacle !== undefined && obstacle !== this.#obstacle)
        log.warn({ reason: obstacle }, 'the etcd member is not restarted with the CAs of the cluster now');
      this.#obstacle = obstacle;
      const revision = obstacle === undefined ? await this.#lock() : undefined;
      if (revision === undefined) await clock.sleep(pollMs, signal);
      else await this.#restart(revision, signal);
    }
    await certificates.removeFormerTrust();
  }

  /** Takes the lock, or renews it if this server has it. Returns its revision, or undefined while another server has the lock. */
  async #lock(): Promise<Revision | undefined> {
    const { storage, server } = this.#options;
    const { entry } = await storage.get(lockKey);
    if (entry !== undefined && Buffer.from(entry.value).toString('utf8') !== server) return undefined;
    const result = await storage.commit(
      [{ key: lockKey, value: Buffer.from(server), ttlSeconds: lockSeconds }],
      [{ key: lockKey, revision: entry?.revision ?? 0 }],
    );
    return result.ok ? result.revision : undefined;
  }

  async #restart(locked: Revision, signal: AbortSignal): Promise<void> {
    const { storage, member, list, clock, log } = this.#options;
    // another server may have restarted its member between the check and the lock
    if (restartObstacle(await list()) === undefined) {
      log.info({}, 'restarting the etcd member, which trusts other CAs then');
      await member().restart(signal);
    }
    let revision: Revision | undefined = locked;
    let renewedAt = clock.monotonic();
    while (restartObstacle(await list()) !== undefined) {
      await clock.sleep(pollMs, signal);
      if (clock.monotonic() - renewedAt < renewMs) continue;
      renewedAt = clock.monotonic();
      revision = await this.#lock();
    }
    if (revision !== undefined) await storage.commit([{ key: lockKey, value: null }], [{ key: lockKey, revision }]);
  }
}
