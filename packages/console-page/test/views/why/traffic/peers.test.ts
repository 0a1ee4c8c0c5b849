import { describe, expect, it } from 'vitest';
import { endOf, groupsOf, peersOf, type PolicyPod } from '../../../../src/views/why/traffic/peers.ts';

const pod = (name: string, ip: string, metadata: object = {}): PolicyPod =>
  ({
    metadata: { name, namespace: 'a', uid: name, resourceVersion: '1', ...metadata },
    spec: { containers: [{ name: 'c' }] },
    status: { phase: 'Running', podIPs: ip === '' ? [] : [{ ip }] },
  }) as unknown as PolicyPod;
const owned = (kind: string, name: string, labels: Readonly<Record<string, string>> = {}) => ({
  labels,
  ownerReferences: [{ apiVersion: 'apps/v1', kind, name, uid: 'u', controller: true }],
});

describe('peersOf', () => {
  const peers = peersOf([
    pod('web-abc-2', '10.0.0.2', owned('ReplicaSet', 'web-abc', { 'pod-template-hash': 'abc' })),
    pod('web-abc-1', '10.0.0.1', owned('ReplicaSet', 'web-abc', { 'pod-template-hash': 'abc' })),
    pod('db-0', '10.0.0.3', owned('StatefulSet', 'db')),
    pod('single', '10.0.0.4'),
    pod('starting', ''),
  ]);

  it('names the workload of each pod with an address', () => {
    expect(peers.map(({ name, workload }) => `${name} ${workload}`)).toEqual([
      'a/db-0 a/db',
      'a/single a/single',
      'a/web-abc-1 a/web',
      'a/web-abc-2 a/web',
    ]);
  });

  it('groups pods by workload, up to a bound', () => {
    expect(groupsOf(peers, 10).map(({ id, pods }) => [id, pods.length])).toEqual([
      ['a/db', 1],
      ['a/single', 1],
      ['a/web', 2],
    ]);
    expect(groupsOf(peers, 2).map(({ id }) => id)).toEqual(['a/db', 'a/single']);
  });

  it('resolves pods, workloads and addresses', () => {
    expect(endOf('a/single', peers)?.ip).toBe('10.0.0.4');
    expect(endOf('a/web', peers)?.pod?.name).toBe('web-abc-1');
    expect(endOf('10.0.0.3', peers)?.pod?.name).toBe('db-0');
    expect(endOf('8.8.8.8', peers)).toEqual({ ip: '8.8.8.8' });
    expect(endOf('a/starting', peers)).toBeUndefined();
  });
});
