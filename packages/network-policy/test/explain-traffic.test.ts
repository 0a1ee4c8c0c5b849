import type { NetworkPolicySpec } from '@oarlock/api/types/networking-v1';
import { casePorts, casePeers, caseNamespaces, policyCases, type CasePeer } from '@oarlock/spi/policy/contract/cases';
import { describe, expect, it } from 'vitest';
import { explainTraffic, type TrafficEnd } from '../src/explain-traffic.ts';
import type { PeerPod } from '../src/peer-pod.ts';
import { policyRules } from '../src/policy-rules.ts';

const address = (key: string) => `10.99.1.${casePeers.findIndex((end) => end.key === key) + 1}`;
const ends = new Map<string, TrafficEnd>(
  casePeers.map(({ key, namespace, labels, ports, outside }: CasePeer) => {
    const ip = address(key);
    const pod: PeerPod = {
      namespace,
      name: key.split('/')[1] ?? '',
      labels,
      ips: [ip],
      ports: ports.map(({ name, protocol, containerPort }) => ({ name, protocol, port: containerPort })),
    };
    return [key, outside === true ? { ip } : { ip, pod }];
  }),
);
const namespaces = new Map(Object.entries(caseNamespaces));
const rulesOf = (specs: Readonly<Record<string, NetworkPolicySpec>>) =>
  Object.entries(specs).map(([key, spec]) => {
    const [namespace = '', name = ''] = key.split('/');
    return policyRules({ metadata: { namespace, name }, spec });
  });
const end = (key: string): TrafficEnd => {
  const found = ends.get(key);
  if (found === undefined) throw new Error(`there is no ${key}`);
  return found;
};

describe('explainTraffic', () => {
  it.each(policyCases)('$title', ({ policies, isAllowed: passes }) => {
    const rules = rulesOf(policies((key) => `${address(key)}/32`, '0.0.0.0/0'));
    for (const from of casePeers)
      for (const to of casePeers)
        for (const namedPort of casePorts) {
          // the table has the policies of one node: policies of other nodes are left out
          if (from === to || !(from.local || from.outside === true) || !(to.local || to.outside === true)) continue;
          const verdicts = explainTraffic({ from: end(from.key), to: end(to.key), ...namedPort }, rules, namespaces);
          expect([from.key, to.key, namedPort, verdicts.every(({ allowed }) => allowed)]).toEqual([
            from.key,
            to.key,
            namedPort,
            passes(from, to, namedPort),
          ]);
        }
  });

  it('returns the policies that isolate and the rules that allow', () => {
    const rules = rulesOf({
      'a/deny': { podSelector: {}, policyTypes: ['Ingress'] },
      'a/allow': {
        podSelector: { matchLabels: { app: 'web' } },
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ podSelector: { matchLabels: { app: 'db' } } }] }, { ports: [{ port: 'http' }] }],
      },
    });
    const [egress, ingress] = explainTraffic({ from: end('outside'), to: end('a/web'), protocol: 'TCP', port: 8080 }, rules, namespaces);
    expect(egress).toEqual({ direction: 'egress', allowed: true, isolatedBy: [], allowedBy: [] });
    expect(ingress).toEqual({
      direction: 'ingress',
      allowed: true,
      isolatedBy: ['a/deny', 'a/allow'],
      allowedBy: [{ policy: 'a/allow', rule: 1 }],
    });
  });

  it('reads ipBlocks with host bits and leading zeros as decimal CIDRs', () => {
    const rules = rulesOf({
      'a/block': {
        podSelector: {},
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ ipBlock: { cidr: '010.001.2.3/16', except: ['10.1.010.0/24'] } }] }],
      },
    });
    expect(rules[0]?.ingress?.[0]?.peers?.blocks).toEqual([{ cidr: '10.1.0.0/16', except: ['10.1.10.0/24'] }]);
    const isAllowed = (ip: string) =>
      explainTraffic({ from: { ip }, to: end('a/web'), protocol: 'TCP', port: 8080 }, rules, namespaces).every(({ allowed }) => allowed);
    expect(['10.1.3.4', '10.1.10.9', '10.2.0.1', '8.1.3.4', '::ffff:10.1.3.4'].map(isAllowed)).toEqual([true, false, false, false, true]);
  });

  it('allows a pod to reach itself', () => {
    const rules = rulesOf({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } });
    const verdicts = explainTraffic({ from: end('a/web'), to: end('a/web'), protocol: 'TCP', port: 8080 }, rules, namespaces);
    expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true]);
  });
});
