import type { Clock } from '@oarlock/primitives/clock';
import { GrpcError } from '@oarlock/grpc/grpc-error';
import type { EtcdConnection } from '../client/etcd-connection.ts';
import { alarmAction, rpcs, type EtcdAlarm, type EtcdMember } from '../rpc/etcd-messages.ts';

/** A member of this cluster cannot join or leave now. The message is a sentence for the administrator. */
export class MembershipError extends Error {
  override readonly name = 'MembershipError';
}

/** Time in milliseconds in which the other members must accept a member. */
const acceptTimeoutMs = 120_000;
const removeTimeoutMs = 15_000;
const [retryMs, promoteRetryMs] = [500, 250];

export interface MembershipOptions {
  readonly connection: Pick<EtcdConnection, 'call'>;
  readonly clock: Clock;
}

/** Changes the members of an etcd cluster. */
export class Membership {
  readonly #connection: Pick<EtcdConnection, 'call'>;
  readonly #clock: Clock;

  constructor({ connection, clock }: MembershipOptions) {
    this.#connection = connection;
    this.#clock = clock;
  }

  async list(): Promise<readonly EtcdMember[]> {
    return (await this.#connection.call(rpcs.memberList, {}, { repeated: true })).members;
  }

  /** Returns the alarms of all members. */
  alarms(): Promise<{ readonly alarms: readonly EtcdAlarm[] }> {
    return this.#connection.call(rpcs.alarm, { action: alarmAction.get }, { repeated: true });
  }

  /**
   * Adds a member as a learner, and returns all members. A former member of the same name or peer URL is removed: its data is gone, because a member with
   * data starts without being added.
   * @throws MembershipError if the other members do not accept a member within two minutes
   */
  async add({ name, peerUrl }: { readonly name: string; readonly peerUrl: string }, signal: AbortSignal): Promise<readonly EtcdMember[]> {
    const deadline = this.#clock.monotonic() + acceptTimeoutMs;
    for (;;) {
      try {
        const members = await this.list();
        const own = members.find((member) => member.peerURLs.includes(peerUrl));
        // added by an earlier attempt that ended before the member started
        if (own !== undefined && own.name === '' && own.isLearner) return members;
        for (const former of members.filter((member) => member === own || member.name === name)) await this.#removeMember(former);
        return (await this.#connection.call(rpcs.memberAdd, { peerURLs: [peerUrl], isLearner: true }, { repeated: false })).members;
      } catch (error) {
        // rejected for now: another learner, or a member that has not been connected for five seconds
        if (!(error instanceof GrpcError)) throw error;
        if (this.#clock.monotonic() > deadline)
          throw new MembershipError(`the etcd members do not accept ${name}: ${sentenceOf(error)}`, { cause: error });
        await this.#clock.sleep(retryMs, signal);
      }
    }
  }

  /** Makes a learner a voting member as soon as it has caught up with the leader. Does nothing if it is a voting member. */
  async promote(peerUrl: string, signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        const own = (await this.list()).find((member) => member.peerURLs.includes(peerUrl));
        if (own === undefined) throw new MembershipError(`the member ${peerUrl} was removed from its cluster`);
        if (!own.isLearner) return;
        await this.#connection.call(rpcs.memberPromote, { ID: own.ID }, { repeated: false });
        return;
      } catch (error) {
        // not in sync with the leader yet, or no leader
        if (!(error instanceof GrpcError)) throw error;
        await this.#clock.sleep(promoteRetryMs, signal);
      }
    }
  }

  /** Removes the member of a name; false if there is none. @throws MembershipError if the other members reject it */
  async remove(name: string): Promise<boolean> {
    const member = (await this.list()).find((each) => each.name === name);
    if (member === undefined) return false;
    const deadline = this.#clock.monotonic() + removeTimeoutMs;
    for (;;) {
      try {
        await this.#removeMember(member);
        return true;
      } catch (error) {
        if (!(error instanceof GrpcError)) throw error;
        // a member that has started counts as healthy after five seconds
        if (!error.message.includes('unhealthy cluster') || this.#clock.monotonic() > deadline)
          throw new MembershipError(`the etcd member ${name} cannot be removed: ${sentenceOf(error)}`, { cause: error });
        await this.#clock.sleep(retryMs);
      }
    }
  }

  /** Removes a member, and its alarms: the other members would reject writes because of them, for as long as the cluster exists. */
  async #removeMember({ ID }: EtcdMember): Promise<void> {
    await this.#connection.call(rpcs.memberRemove, { ID }, { repeated: false });
    const { alarms } = await this.alarms();
    for (const { memberID, alarm } of alarms)
      if (memberID.toString() === ID.toString())
        await this.#connection.call(rpcs.alarm, { action: alarmAction.deactivate, memberID, alarm }, { repeated: true });
  }

  /** Changes the peer URL of a member whose server has another address now. */
  async update({ ID }: EtcdMember, peerUrl: string): Promise<void> {
    await this.#connection.call(rpcs.memberUpdate, { ID, peerURLs: [peerUrl] }, { repeated: false });
  }
}

/** Returns what the administrator can do about a rejection by etcd. */
function sentenceOf({ message }: GrpcError): string {
  if (message.includes('unhealthy cluster'))
    return 'a member of the cluster does not respond. Start its server, or remove it with `oarlock server remove NAME`';
  if (message.includes('too many learner')) return 'another server is joining. Join this one afterward';
  if (message.includes('not enough started members')) return 'too few of the other members run';
  return message;
}
