import type { NetworkPolicySpec } from '@oarlock/api/types/networking-v1';
import { describe, expect, it } from 'vitest';
import type { PeerPod } from '../src/peer-pod.ts';
import { policyRules } from '../src/policy-rules.ts';
import { trafficGraph, type TrafficGroup } from '../src/traffic-graph.ts';

let addresses = 0;
const pod = (name: string, labels: Readonly<Record<string, string>>, ports: PeerPod['ports'] = []): PeerPod => ({
  ...{ namespace: 'a', name, labels, ports },
  ips: [`10.0.0.${++addresses}`],
});
const policy = (spec: NetworkPolicySpec) => policyRules({ metadata: { namespace: 'a', name: 'p' }, spec });
const edges = (groups: readonly TrafficGroup[], policies: readonly NetworkPolicySpec[], port = '80') =>
  trafficGraph({ groups, policies: policies.map(policy), namespaces: new Map([['a', {}]]), port: { port, protocol: 'TCP' } }).map(
    ({ from, to, reach }) => `${from}->${to} ${reach}`,
  );

describe('trafficGraph', () => {
  const web = { id: 'web', pods: [pod('web-1', { app: 'web' }), pod('web-2', { app: 'web' })] };
  const db = { id: 'db', pods: [pod('db-1', { app: 'db' }, [{ name: 'sql', protocol: 'TCP', port: 5432 }])] };

  it('allows all traffic without policies, and pairs no pod with itself', () => {
    expect(edges([web, db], [])).toEqual(['web->web all', 'web->db all', 'db->web all']);
  });

  it('shows what a policy isolates', () => {
    const onlyWeb = {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [{ from: [{ podSelector: { matchLabels: { app: 'web' } } }] }],
    };
    const other = { id: 'other', pods: [pod('other-1', {})] };
    expect(edges([web, db, other], [onlyWeb])).toEqual([
      'web->web all',
      'web->db all',
      'web->other all',
      'db->web all',
      'db->other all',
      'other->web all',
      'other->db none',
    ]);
  });

  it('distinguishes pods of one group by the labels and addresses that policies name', () => {
    const mixed = { id: 'mixed', pods: [pod('m-1', { role: 'reader' }), pod('m-2', { role: 'writer' })] };
    const readers = {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [{ from: [{ podSelector: { matchLabels: { role: 'reader' } } }] }],
    };
    expect(edges([mixed, db], [readers])).toContain('mixed->db some');
    const block = {
      podSelector: { matchLabels: { app: 'db' } },
      ingress: [{ from: [{ ipBlock: { cidr: `${web.pods[0]?.ips[0]}/32` } }] }],
    };
    expect(edges([web, db], [block])).toContain('web->db some');
  });

  it('resolves the name of a port at each destination', () => {
    expect(edges([web, db], [], 'sql')).toEqual(['web->web none', 'web->db all', 'db->web none']);
  });
});
