import type { StorageMembers, StorageServer } from '@oarlock/spi/storage-server';
import type { Health } from '@oarlock/spi/role';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { EtcdStorage, type EtcdStorageOptions } from './etcd-storage.ts';
import { EtcdMembers } from './managed/etcd-members.ts';
import { Maintenance, type MaintenanceSettings } from './managed/maintenance.ts';
import { ManagedMember, type ManagedSettings } from './managed/managed-member.ts';
import { MemberFiles } from './managed/member-state.ts';
import { RemoteSnapshots, type SnapshotStoreSettings } from './managed/remote-snapshots.ts';
import { S3Bucket } from './s3/s3-bucket.ts';

export interface ManagedEtcdOptions extends Omit<EtcdStorageOptions, 'endpoints' | 'caFile' | 'certFile' | 'keyFile'> {
  readonly server: StorageServer;
  readonly directory: string;
  readonly member: Omit<ManagedSettings, 'maxRequestBytes'>;
  readonly maintenance: MaintenanceSettings;
  /** Default: `snapshots` in `directory`. */
  readonly snapshotDirectory: string | undefined;
  /** The store of copies of the snapshots, if any. */
  readonly s3?: SnapshotStoreSettings | undefined;
  readonly maxRequestBytes: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A storage driver for an etcd whose members run beside the servers. */
export class ManagedEtcdStorage extends EtcdStorage {
  override readonly members: StorageMembers;
  readonly maintenance: Maintenance;
  readonly #options: ManagedEtcdOptions;
  readonly #stop = new AbortController();
  readonly #remote: RemoteSnapshots | undefined;
  #member: ManagedMember | undefined;
  #unsubscribe: (() => void) | undefined;

  constructor(options: ManagedEtcdOptions) {
    super({ ...options, endpoints: [], quotaBytes: options.member.quotaBytes });
    this.#options = options;
    const { server, directory, clock, log, random = Math.random, maintenance, snapshotDirectory, s3 } = options;
    const { signal } = this.#stop;
    this.#remote = s3 && new RemoteSnapshots({ ...s3, bucket: new S3Bucket(s3, { clock }), server: server.name });
    const members = new EtcdMembers({
      storage: this,
      member: () => this.member,
      server: server.name,
      snapshotDirectory: snapshotDirectory ?? new MemberFiles(directory).snapshots,
      remote: this.#remote,
      ...{ clock, log, random, signal },
    });
    this.members = members;
    this.maintenance = new Maintenance({
      settings: maintenance,
      quotaBytes: options.member.quotaBytes,
      members,
      server: server.name,
      clock,
      log,
      signal,
    });
  }

  /** The member of this server. @throws Error before `start` */
  get member(): ManagedMember {
    if (this.#member === undefined) throw new Error('the etcd member has not started');
    return this.#member;
  }
  get restarts(): number {
    return this.#member?.restarts ?? 0;
  }

  /** Why the program of this server's member does not run, or undefined. */
  get memberFailure(): string | undefined {
    return this.#member?.failure;
  }

  override async start(signal: AbortSignal = new AbortController().signal): Promise<void> {
    const { server, directory, member: settings, maxRequestBytes, clock, log, random = Math.random } = this.#options;
    this.#member = await server.run(async () => {
      const download = (name: string, path: string, abort: AbortSignal) => this.#download(name, path, abort);
      const member = new ManagedMember({ settings: { ...settings, maxRequestBytes }, server, directory, download, clock, log, random });
      try {
        await member.start(signal);
      } catch (error) {
        await member.stop();
        throw error;
      }
      return member;
    });
    this.connectTo({ endpoints: this.member.endpoints, ...this.member.certificates.client });
    this.#unsubscribe = this.member.onEndpoints((endpoints) => this.useEndpoints(endpoints));
    await super.start(signal);
    await this.maintenance.start();
  }

  override async stop(): Promise<void> {
    this.#stop.abort(new Error('the storage is stopped'));
    this.#unsubscribe?.();
    await this.maintenance.stop();
    await super.stop();
  }

  async #download(name: string, path: string, signal: AbortSignal): Promise<void> {
    if (this.#remote === undefined)
      throw new Error(`there is no snapshot ${name}, and no store of copies is configured (managed.snapshots.s3)`);
    await this.#remote.download(name, path, signal);
  }

  override checkHealth(): Health {
    const failure = this.#member?.failure;
    return failure === undefined ? super.checkHealth() : { healthy: false, reason: failure };
  }
}
