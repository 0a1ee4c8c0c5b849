import { GrpcError } from '@oarlock/grpc/grpc-error';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { Membership, MembershipError } from '../../src/managed/membership.ts';
import { rpcs, type EtcdMember } from '../../src/rpc/etcd-messages.ts';

const { signal } = new AbortController();
const member = (name: string, peer: string, isLearner = false): EtcdMember => ({
  ...{ ID: peer, name, peerURLs: [`https://${peer}:2380`], clientURLs: name === '' ? [] : [`https://${peer}:2379`], isLearner },
});

/** The members of a cluster, which rejects calls with the errors in `rejections` first. */
function cluster(members: EtcdMember[], rejections: GrpcError[] = []) {
  const calls: string[] = [];
  const clock = new FakeClock();
  const connection = {
    async call(rpc: { readonly path: string }, request: unknown): Promise<never> {
      if (rpc.path === rpcs.memberList.path) return { members: [...members] } as never;
      if (rpc.path === rpcs.alarm.path) return { alarms: [] } as never;
      const rejection = rejections.shift();
      if (rejection !== undefined) throw rejection;
      calls.push(rpc.path.split('/').at(-1) ?? '');
      if (rpc.path === rpcs.memberAdd.path) {
        const { peerURLs } = request as { readonly peerURLs: readonly string[] };
        members.push({ ID: 'new', name: '', peerURLs, clientURLs: [], isLearner: true });
      } else {
        const { ID } = request as { readonly ID: string };
        const index = members.findIndex((each) => each.ID === ID);
        const [found] = members.splice(index, 1);
        if (rpc.path === rpcs.memberPromote.path && found !== undefined) members.push({ ...found, isLearner: false });
      }
      return { members: [...members] } as never;
    },
  };
  return { membership: new Membership({ connection, clock }), members, calls, clock };
}
/** Advances the clock until a promise settles. */
async function settle<T>(clock: FakeClock, promise: Promise<T>, stepMs: number): Promise<T> {
  let isSettled = false;
  const done = () => {
    isSettled = true;
  };
  promise.then(done, done);
  while (!isSettled) {
    await clock.advance(stepMs);
  }
  return promise;
}
const own = { name: 'c', peerUrl: 'https://10.0.0.3:2380' };

describe('adding a member', () => {
  it('adds it as a learner', async () => {
    const { membership, calls } = cluster([member('a', '10.0.0.1')]);
    expect((await membership.add(own, signal)).map(({ isLearner }) => isLearner)).toEqual([false, true]);
    expect(calls).toEqual(['MemberAdd']);
  });

  it('replaces the former member of its server, whose data is gone', async () => {
    const { membership, calls, members } = cluster([member('a', '10.0.0.1'), member('c', '10.0.0.9'), member('', '10.0.0.3')]);
    await membership.add(own, signal);
    expect(calls).toEqual(['MemberRemove', 'MemberRemove', 'MemberAdd']);
    expect(members.map(({ peerURLs }) => peerURLs[0])).toEqual(['https://10.0.0.1:2380', own.peerUrl]);
  });

  it('continues after an attempt that ended before the member started', async () => {
    const { membership, calls } = cluster([member('a', '10.0.0.1'), member('', '10.0.0.3', true)]);
    await membership.add(own, signal);
    expect(calls).toEqual([]);
  });

  it('waits while another server joins', async () => {
    const rejection = new GrpcError('FAILED_PRECONDITION', 'etcdserver: too many learner members in cluster');
    const { membership, calls, clock } = cluster([member('a', '10.0.0.1')], [rejection, rejection]);
    await settle(clock, membership.add(own, signal), 500);
    expect(calls).toEqual(['MemberAdd']);
  });

  it('fails with a sentence if a member of the cluster stays away', async () => {
    const rejections = Array.from({ length: 1000 }, () => new GrpcError('UNAVAILABLE', 'etcdserver: unhealthy cluster'));
    const { membership, clock } = cluster([member('a', '10.0.0.1')], rejections);
    await expect(settle(clock, membership.add(own, signal), 10_000)).rejects.toThrow(
      'the etcd members do not accept c: a member of the cluster does not respond. Start its server, or remove it with `oarlock server remove NAME`',
    );
  });
});

describe('promoting a learner', () => {
  it('waits until it has caught up', async () => {
    const rejection = new GrpcError('FAILED_PRECONDITION', 'etcdserver: can only promote a learner member which is in sync with leader');
    const { membership, members, clock } = cluster([member('a', '10.0.0.1'), member('c', '10.0.0.3', true)], [rejection]);
    await settle(clock, membership.promote(own.peerUrl, signal), 250);
    expect(members.every(({ isLearner }) => !isLearner)).toBe(true);
  });

  it('does nothing for a voting member, and fails for a removed one', async () => {
    const { membership, calls } = cluster([member('c', '10.0.0.3')]);
    await membership.promote(own.peerUrl, signal);
    expect(calls).toEqual([]);
    await expect(cluster([member('a', '10.0.0.1')]).membership.promote(own.peerUrl, signal)).rejects.toThrow(MembershipError);
  });
});

describe('removing a member', () => {
  it('returns false if there is none of the name, and the reason of a rejection', async () => {
    expect(await cluster([member('a', '10.0.0.1')]).membership.remove('b')).toBe(false);
    const rejection = new GrpcError('FAILED_PRECONDITION', 'etcdserver: re-configuration failed due to not enough started members');
    await expect(cluster([member('a', '10.0.0.1')], [rejection]).membership.remove('a')).rejects.toThrow(
      'the etcd member a cannot be removed: too few of the other members run',
    );
  });
});
