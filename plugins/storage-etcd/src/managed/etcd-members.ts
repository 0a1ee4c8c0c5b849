import type { Clock } from '@oarlock/primitives/clock';
import { errorText } from '@oarlock/primitives/error-text';
import type { Logger } from '@oarlock/primitives/logger';
import { StorageError, type StorageDriver } from '@oarlock/spi/storage';
import type { MemberAuthorities, SnapshotList, StorageMember, StorageMembers, StorageSnapshot } from '@oarlock/spi/storage-server';
import { EtcdConnection } from '../client/etcd-connection.ts';
import { alarmAction, hexadecimal, int, noSpace, rpcs, type EtcdMember, type SnapshotResponse } from '../rpc/etcd-messages.ts';
import { AuthorityRollout } from './authority-rollout.ts';
import type { ManagedMember } from './managed-member.ts';
import { MembershipError } from './membership.ts';
import type { RemoteSnapshots } from './remote-snapshots.ts';
import { Snapshots } from './snapshots.ts';

const statusTimeoutMs = 2_000;
/** Defragmenting blocks a member while it copies its data. The time that it may take grows with the data, at one mebibyte a second. */
const defragmentTimeoutMs = (databaseBytes: number): number => 10 * 60_000 + Math.round(databaseBytes / 1024 / 1024) * 1000;
const disarmTimeoutMs = 10_000;
/** Time in milliseconds for the list of copies: less than the commands wait for their answer. */
const listTimeoutMs = 15_000;
/** `AlarmType` of etcd. */
const alarmNames: Readonly<Record<number, string>> = { [noSpace]: 'NOSPACE', 2: 'CORRUPT' };

export interface EtcdMembersOptions {
  /** The storage that the members serve. */
  readonly storage: Pick<StorageDriver, 'get' | 'commit'>;
  readonly member: () => ManagedMember;
  readonly server: string;
  readonly snapshotDirectory: string;
  /** Where copies of the snapshots are kept, if anywhere. */
  readonly remote: RemoteSnapshots | undefined;
  readonly clock: Clock;
  readonly log: Logger;
  readonly random: () => number;
  readonly signal: AbortSignal;
}

/** Returns members with the leader last: while it copies its data, the others may elect another leader. */
export const defragmentOrder = (members: readonly StorageMember[]): readonly StorageMember[] =>
  [...members].sort((a, b) => Number(a.role === 'Leader') - Number(b.role === 'Leader'));

/** The members of the etcd cluster, as this server sees them. */
export class EtcdMembers implements StorageMembers {
  readonly snapshots: Snapshots;
  readonly #options: EtcdMembersOptions;

  constructor(options: EtcdMembersOptions) {
    this.#options = options;
    const { snapshotDirectory: directory, server, clock } = options;
    this.snapshots = new Snapshots({ directory, server, open: (signal) => this.#openSnapshot(signal), clock });
  }

  endpoints(): readonly string[] {
    return this.#options.member().endpoints;
  }

  async list(): Promise<readonly StorageMember[]> {
    const [members, alarms] = await Promise.all([this.#members(), this.#alarms()]);
    const described = await Promise.all(
      members.map(async (member) => ({ ...(await this.#describe(member)), alarms: alarms.get(member.ID.toString()) ?? [] })),
    );
    return described.sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  async authorities(): Promise<MemberAuthorities> {
    const { certificates, command } = this.#options.member();
    return { signing: certificates.signing, trusted: await certificates.trustedBy(command) };
  }

  async useAuthorities(signal: AbortSignal): Promise<void> {
    const { storage, member, server, clock, log } = this.#options;
    await new AuthorityRollout({ storage, member, list: () => this.list(), server, clock, log }).run(signal);
  }

  async remove(name: string): Promise<boolean> {
    try {
      return await this.#options.member().membership.remove(name);
    } catch (error) {
      if (error instanceof MembershipError) throw new StorageError('Unavailable', error.message, { cause: error });
      throw error;
    }
  }

  get remote(): RemoteSnapshots | undefined {
    return this.#options.remote;
  }

  async saveSnapshot(name?: string): Promise<StorageSnapshot> {
    const { signal } = this.#options;
    const saved = await this.snapshots.save(signal, name);
    await this.remote?.save(saved, signal).catch((error: unknown) => {
      throw new StorageError('Unavailable', `${saved.path} was written, but not uploaded: ${errorText(error)}`, { cause: error });
    });
    return saved;
  }

  async listSnapshots(): Promise<SnapshotList> {
    const own = await this.snapshots.list();
    if (this.remote === undefined) return { snapshots: own };
    const { clock, signal } = this.#options;
    const limit = new AbortController();
    const timer = clock.after(listTimeoutMs, () => limit.abort(new Error(`no answer within ${listTimeoutMs / 1000} s`)));
    try {
      return { snapshots: [...own, ...(await this.remote.list(AbortSignal.any([signal, limit.signal])))] };
    } catch (error) {
      return { snapshots: own, copiesFailure: `the copies of the snapshots cannot be listed: ${errorText(error)}` };
    } finally {
      timer.cancel();
    }
  }

  async defragment(): Promise<readonly string[]> {
    const members = defragmentOrder(await this.list()).filter(({ role }) => role !== 'Unknown');
    for (const member of members) await this.defragmentMember(member);
    return members.map(({ name }) => name);
  }

  async defragmentMember({ endpoint, databaseBytes }: Pick<StorageMember, 'endpoint' | 'databaseBytes'>): Promise<void> {
    await this.#with(endpoint, defragmentTimeoutMs(databaseBytes), (connection) =>
      connection.call(rpcs.defragment, {}, { repeated: false }),
    );
  }

  async disarm(): Promise<readonly string[]> {
    const names = new Map((await this.#members()).map(({ ID, name }) => [ID.toString(), name]));
    return this.#with(this.#options.member().clientUrl, disarmTimeoutMs, async (connection) => {
      const { alarms } = await connection.call(rpcs.alarm, { action: alarmAction.get }, { repeated: true });
      const full = alarms.filter(({ alarm }) => alarm === noSpace);
      for (const { memberID, alarm } of full)
        await connection.call(rpcs.alarm, { action: alarmAction.deactivate, memberID, alarm }, { repeated: true });
      return full.map(({ memberID }) => names.get(memberID.toString()) ?? hexadecimal(memberID));
    });
  }

  #members(): Promise<readonly EtcdMember[]> {
    return this.#options.member().membership.list();
  }

  /** Returns the names of the alarms by the ids of their members: each member knows all of them. */
  async #alarms(): Promise<ReadonlyMap<string, readonly string[]>> {
    const { alarms } = await this.#options
      .member()
      .membership.alarms()
      .catch((error: unknown) => {
        // needs a quorum, unlike the rest of the list
        this.#options.log.debug({ error: errorText(error) }, 'the alarms of the etcd members are unknown');
        return { alarms: [] };
      });
    const byMember = new Map<string, string[]>();
    for (const { memberID, alarm } of alarms) {
      const names = byMember.get(memberID.toString()) ?? [];
      byMember.set(memberID.toString(), [...names, alarmNames[alarm] ?? String(alarm)]);
    }
    return byMember;
  }

  async #describe({ ID, name, clientURLs, isLearner }: EtcdMember): Promise<StorageMember> {
    const [endpoint = ''] = clientURLs;
    const unknown = {
      name,
      id: hexadecimal(ID),
      endpoint,
      role: 'Unknown',
      version: '',
      databaseBytes: 0,
      databaseBytesInUse: 0,
      alarms: [],
    } as const;
    if (endpoint === '') return unknown;
    try {
      const status = await this.#with(endpoint, statusTimeoutMs, (connection) => connection.call(rpcs.status, {}, { repeated: false }));
      const leads = status.leader.toString() === ID.toString();
      return {
        ...unknown,
        role: isLearner ? 'Learner' : leads ? 'Leader' : 'Follower',
        version: status.version,
        databaseBytes: int(status.dbSize),
        databaseBytesInUse: int(status.dbSizeInUse),
      };
    } catch (error) {
      this.#options.log.debug({ endpoint, error: String(error) }, 'an etcd member does not respond');
      return unknown;
    }
  }

  async *#openSnapshot(signal: AbortSignal): AsyncGenerator<SnapshotResponse> {
    const connection = this.#connect(this.#options.member().clientUrl, statusTimeoutMs);
    try {
      const { session } = await connection.member(AbortSignal.any([signal, AbortSignal.timeout(statusTimeoutMs)]));
      yield* session.stream(rpcs.snapshot, {}, signal);
    } finally {
      connection.close();
    }
  }

  async #with<T>(endpoint: string, timeoutMs: number, work: (connection: EtcdConnection) => Promise<T>): Promise<T> {
    const connection = this.#connect(endpoint, timeoutMs);
    try {
      return await work(connection);
    } finally {
      connection.close();
    }
  }

  #connect(endpoint: string, requestTimeoutMs: number): EtcdConnection {
    const { clock, log, random, member } = this.#options;
    const settings = { requestTimeoutMs, keepaliveMs: 10_000, dialTimeoutMs: statusTimeoutMs };
    return new EtcdConnection({ endpoints: [endpoint], ...member().certificates.client, ...settings, clock, log, random });
  }
}
