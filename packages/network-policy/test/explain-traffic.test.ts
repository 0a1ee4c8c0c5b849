import type { NetworkPolicySpec } from '@oarlock/api/types/networking-v1';
import { caseDoors, caseEnds, caseNamespaces, policyCases, type CaseEnd } from '@oarlock/spi/policy.contract.cases';
import { describe, expect, it } from 'vitest';
import { explainTraffic, type TrafficEnd } from '../src/explain-traffic.ts';
import type { PeerPod } from '../src/peer-pod.ts';
import { policyRules } from '../src/policy-rules.ts';

const address = (key: string) => `10.99.1.${caseEnds.findIndex((end) => end.key === key) + 1}`;
const ends = new Map<string, TrafficEnd>(
  caseEnds.map(({ key, namespace, labels, ports, outside }: CaseEnd) => {
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

describe('which rule decides about a connection', () => {
  it.each(policyCases)('$title', ({ policies, passes }) => {
    const rules = rulesOf(policies((key) => `${address(key)}/32`, '0.0.0.0/0'));
    for (const from of caseEnds)
      for (const to of caseEnds)
        for (const door of caseDoors) {
          // the table speaks of the policies of one node: what holds elsewhere is left out
          if (from === to || !(from.local || from.outside === true) || !(to.local || to.outside === true)) continue;
          const verdicts = explainTraffic({ from: end(from.key), to: end(to.key), ...door }, rules, namespaces);
          expect([from.key, to.key, door, verdicts.every(({ allowed }) => allowed)]).toEqual([
            from.key,
            to.key,
            door,
            passes(from, to, door),
          ]);
        }
  });

  it('names the policies that isolate and the rules that let through', () => {
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

  it('lets a pod reach itself', () => {
    const rules = rulesOf({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } });
    const verdicts = explainTraffic({ from: end('a/web'), to: end('a/web'), protocol: 'TCP', port: 8080 }, rules, namespaces);
    expect(verdicts.map(({ allowed }) => allowed)).toEqual([true, true]);
  });
});
