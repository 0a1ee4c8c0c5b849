import type { NetworkPolicySpec } from '@oarlock/api/types/networking-v1';

export type CaseProtocol = 'TCP' | 'UDP' | 'SCTP';

/** A source or destination of packets. */
export interface CasePeer {
  readonly key: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  /** True if the pod is on the node under test. */
  readonly local: boolean;
  /** True for a machine outside the cluster. */
  readonly outside?: boolean;
  readonly ports: readonly { readonly name: string; readonly protocol: CaseProtocol; readonly containerPort: number }[];
}

const port = (name: string, containerPort: number, protocol: CaseProtocol = 'TCP') => ({ name, containerPort, protocol });

export const caseNamespaces: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  a: { team: 'red' },
  b: { team: 'blue' },
  c: { team: 'blue', env: 'prod' },
};

export const casePeers: readonly CasePeer[] = [
  {
    key: 'a/web',
    namespace: 'a',
    labels: { app: 'web', tier: 'front' },
    local: true,
    ports: [port('http', 8080), port('metrics', 9090), port('dns', 5353, 'UDP'), port('m3ua', 2905, 'SCTP')],
  },
  { key: 'a/db', namespace: 'a', labels: { app: 'db', tier: 'back' }, local: true, ports: [port('http', 9090)] },
  { key: 'a/client', namespace: 'a', labels: { app: 'client' }, local: true, ports: [] },
  { key: 'b/web', namespace: 'b', labels: { app: 'web', tier: 'front' }, local: true, ports: [port('http', 8080)] },
  { key: 'b/client', namespace: 'b', labels: { app: 'client' }, local: true, ports: [] },
  { key: 'c/far', namespace: 'c', labels: { app: 'client', tier: 'back' }, local: false, ports: [port('http', 9090)] },
  { key: 'outside', namespace: '', labels: {}, local: false, outside: true, ports: [] },
];

export interface CasePort {
  readonly protocol: CaseProtocol;
  readonly port: number;
}
export const casePorts: readonly CasePort[] = [
  { protocol: 'TCP', port: 8080 },
  { protocol: 'TCP', port: 9090 },
  { protocol: 'UDP', port: 5353 },
  { protocol: 'SCTP', port: 2905 },
];

/** NetworkPolicies by namespace and name, and the packets they allow. `block` returns the CIDR of one peer, in the family under test. */
export interface PolicyCase {
  readonly title: string;
  policies(block: (key: string) => string, everywhere: string): Readonly<Record<string, NetworkPolicySpec>>;
  /** Returns true if the packet is allowed. At least one of the peers is on the node under test. */
  isAllowed(from: CasePeer, to: CasePeer, target: CasePort): boolean;
}

const isOneOf = (end: CasePeer, ...keys: readonly string[]) => keys.includes(end.key);
const tcp = (target: CasePort, ...ports: readonly number[]) => target.protocol === 'TCP' && ports.includes(target.port);
const app = (name: string) => ({ matchLabels: { app: name } });
const selectByLabel = (name: string) => ({ matchLabels: { team: name } });
const hasLabel = (end: CasePeer, key: string, value: string) => end.labels[key] === value;
const labelOf = (end: CasePeer) => caseNamespaces[end.namespace]?.['team'];
/** Returns true if policies can isolate this end: the pod is on a node under test and in the policy's namespace. */
const isIsolated = (end: CasePeer, namespace: string) => end.local && end.namespace === namespace;

export const policyCases: readonly PolicyCase[] = [
  { title: 'without policies everything is allowed', policies: () => ({}), isAllowed: () => true },
  {
    title: 'an empty policy denies all ingress of its namespace',
    policies: () => ({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress'] } }),
    isAllowed: (_from, to) => !isIsolated(to, 'a'),
  },
  {
    title: 'a policy of type Egress denies all egress and no ingress',
    policies: () => ({ 'a/deny': { podSelector: {}, policyTypes: ['Egress'] } }),
    isAllowed: (from) => !isIsolated(from, 'a'),
  },
  {
    title: 'default deny of both directions',
    policies: () => ({ 'b/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } }),
    isAllowed: (from, to) => !isIsolated(from, 'b') && !isIsolated(to, 'b'),
  },
  {
    title: 'an empty rule allows everything',
    policies: () => ({ 'a/allow': { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{}], egress: [{}] } }),
    isAllowed: () => true,
  },
  {
    title: 'policies are additive: one that allows wins over one that denies',
    policies: () => ({
      'a/deny': { podSelector: {}, policyTypes: ['Ingress'] },
      'a/allow': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{}] },
    }),
    isAllowed: (_from, to) => !isIsolated(to, 'a') || isOneOf(to, 'a/web'),
  },
  {
    title: 'ingress from pods of the same namespace by label',
    policies: () => ({
      'a/web': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: app('client') }] }] },
    }),
    isAllowed: (from, to) => !isOneOf(to, 'a/web') || isOneOf(from, 'a/client'),
  },
  {
    title: 'ingress from all pods of the same namespace',
    policies: () => ({ 'a/own': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: {} }] }] } }),
    isAllowed: (from, to) => !isIsolated(to, 'a') || from.namespace === 'a',
  },
  {
    title: 'ingress from namespaces by label',
    policies: () => ({
      'a/blue': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ namespaceSelector: selectByLabel('blue') }] }] },
    }),
    isAllowed: (from, to) => !isIsolated(to, 'a') || labelOf(from) === 'blue',
  },
  {
    title: 'ingress from every namespace excludes machines outside the cluster',
    policies: () => ({ 'a/pods': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ namespaceSelector: {} }] }] } }),
    isAllowed: (from, to) => !isIsolated(to, 'a') || from.outside !== true,
  },
  {
    title: 'namespaceSelector and podSelector in one peer must both match',
    policies: () => ({
      'a/and': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ namespaceSelector: selectByLabel('blue'), podSelector: app('web') }] }],
      },
    }),
    isAllowed: (from, to) => !isOneOf(to, 'a/web') || isOneOf(from, 'b/web'),
  },
  {
    title: 'namespaceSelector and podSelector in two peers: one must match',
    policies: () => ({
      'a/or': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ namespaceSelector: selectByLabel('blue') }, { podSelector: app('db') }] }],
      },
    }),
    isAllowed: (from, to) => !isOneOf(to, 'a/web') || labelOf(from) === 'blue' || isOneOf(from, 'a/db'),
  },
  {
    title: 'a selector with expressions',
    policies: () => ({
      'a/expressions': {
        podSelector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['web', 'db'] }] },
        policyTypes: ['Ingress'],
        ingress: [
          {
            from: [
              {
                namespaceSelector: { matchExpressions: [{ key: 'env', operator: 'DoesNotExist' }] },
                podSelector: { matchExpressions: [{ key: 'tier', operator: 'Exists' }] },
              },
            ],
          },
        ],
      },
    }),
    isAllowed: (from, to) => !isOneOf(to, 'a/web', 'a/db') || isOneOf(from, 'a/web', 'a/db', 'b/web'),
  },
  {
    title: 'a peer selector that matches no pod allows nothing',
    policies: () => ({
      'a/none': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: app('nobody') }] }] },
    }),
    isAllowed: (_from, to) => !isOneOf(to, 'a/web'),
  },
  {
    title: 'a port number defaults to TCP',
    policies: () => ({ 'a/port': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 8080 }] }] } }),
    isAllowed: (_from, to, target) => !isOneOf(to, 'a/web') || tcp(target, 8080),
  },
  {
    title: 'a UDP port',
    policies: () => ({
      'a/udp': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 5353, protocol: 'UDP' }] }] },
    }),
    isAllowed: (_from, to, target) => !isOneOf(to, 'a/web') || target.protocol === 'UDP',
  },
  {
    title: 'SCTP ports: a matching number, another number, all',
    policies: () => ({
      'a/number': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 2905, protocol: 'SCTP' }] }] },
      'b/other': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 2906, protocol: 'SCTP' }] }] },
      'a/all': { podSelector: app('db'), policyTypes: ['Ingress'], ingress: [{ ports: [{ protocol: 'SCTP' }] }] },
    }),
    isAllowed: (_from, to, target) => !isOneOf(to, 'b/web') && (!isOneOf(to, 'a/web', 'a/db') || target.protocol === 'SCTP'),
  },
  {
    title: 'a named SCTP port',
    policies: () => ({
      'a/named': { podSelector: app('client'), policyTypes: ['Egress'], egress: [{ ports: [{ port: 'm3ua', protocol: 'SCTP' }] }] },
    }),
    isAllowed: (from, to, target) => !isOneOf(from, 'a/client') || (isOneOf(to, 'a/web') && target.protocol === 'SCTP'),
  },
  {
    title: 'a protocol without a port matches every port of it',
    policies: () => ({ 'a/tcp': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ protocol: 'TCP' }] }] } }),
    isAllowed: (_from, to, target) => !isOneOf(to, 'a/web') || target.protocol === 'TCP',
  },
  {
    title: 'a port of another protocol does not allow the same number',
    policies: () => ({
      'a/udp': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 8080, protocol: 'UDP' }] }] },
    }),
    isAllowed: (_from, to) => !isOneOf(to, 'a/web'),
  },
  {
    title: 'a port range',
    policies: () => ({
      'a/range': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 8000, endPort: 8999 }] }] },
    }),
    isAllowed: (_from, to, target) => !isOneOf(to, 'a/web') || tcp(target, 8080),
  },
  {
    title: 'overlapping port ranges',
    policies: () => ({
      'a/ranges': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ ports: [{ port: 8000, endPort: 9000 }, { port: 8080 }, { port: 8500, endPort: 9090 }] }],
      },
    }),
    isAllowed: (_from, to, target) => !isOneOf(to, 'a/web') || tcp(target, 8080, 9090),
  },
  {
    title: 'several ports of several protocols in one rule',
    policies: () => ({
      'a/ports': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ ports: [{ port: 9090 }, { port: 5353, protocol: 'UDP' }] }],
      },
    }),
    isAllowed: (_from, to, target) => !isOneOf(to, 'a/web') || tcp(target, 9090) || target.protocol === 'UDP',
  },
  {
    title: 'a named port is resolved for each selected pod',
    policies: () => ({ 'a/named': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 'http' }] }] } }),
    isAllowed: (_from, to, target) =>
      !isIsolated(to, 'a') || (isOneOf(to, 'a/web') && tcp(target, 8080)) || (isOneOf(to, 'a/db') && tcp(target, 9090)),
  },
  {
    title: 'a named port of egress is resolved for each peer',
    policies: () => ({
      'a/named': {
        podSelector: app('client'),
        policyTypes: ['Egress'],
        egress: [{ to: [{ namespaceSelector: {} }], ports: [{ port: 'http' }] }],
      },
    }),
    isAllowed: (from, to, target) =>
      !isOneOf(from, 'a/client') ||
      (isOneOf(to, 'a/web', 'b/web') && tcp(target, 8080)) ||
      (isOneOf(to, 'a/db', 'c/far') && tcp(target, 9090)),
  },
  {
    title: 'a named port of egress without peers is resolved for every pod',
    policies: () => ({
      'a/named': { podSelector: app('client'), policyTypes: ['Egress'], egress: [{ ports: [{ port: 'dns', protocol: 'UDP' }] }] },
    }),
    isAllowed: (from, to, target) => !isOneOf(from, 'a/client') || (isOneOf(to, 'a/web') && target.protocol === 'UDP'),
  },
  {
    title: 'peers and ports of one rule must both match',
    policies: () => ({
      'a/both': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ podSelector: app('client') }], ports: [{ port: 8080 }] }],
      },
    }),
    isAllowed: (from, to, target) => !isOneOf(to, 'a/web') || (isOneOf(from, 'a/client') && tcp(target, 8080)),
  },
  {
    title: 'one of several rules must match',
    policies: () => ({
      'a/rules': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [
          { from: [{ podSelector: app('client') }], ports: [{ port: 8080 }] },
          { from: [{ podSelector: app('db') }], ports: [{ port: 'metrics' }] },
        ],
      },
    }),
    isAllowed: (from, to, target) =>
      !isOneOf(to, 'a/web') || (isOneOf(from, 'a/client') && tcp(target, 8080)) || (isOneOf(from, 'a/db') && tcp(target, 9090)),
  },
  {
    title: 'an ipBlock allows a machine outside the cluster',
    policies: (block) => ({
      'a/block': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ ipBlock: { cidr: block('outside') } }] }] },
    }),
    isAllowed: (from, to) => !isOneOf(to, 'a/web') || isOneOf(from, 'outside'),
  },
  {
    title: 'an ipBlock with exceptions',
    policies: (block, everywhere) => ({
      'a/except': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ ipBlock: { cidr: everywhere, except: [block('outside'), block('b/client')] } }] }],
      },
    }),
    isAllowed: (from, to) => !isOneOf(to, 'a/web') || !isOneOf(from, 'outside', 'b/client'),
  },
  {
    title: 'an ipBlock with a port; another rule allows the exception',
    policies: (block, everywhere) => ({
      'a/blocks': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [
          { from: [{ ipBlock: { cidr: everywhere, except: [block('outside')] } }], ports: [{ port: 8080 }] },
          { from: [{ ipBlock: { cidr: block('outside') } }], ports: [{ port: 9090 }] },
        ],
      },
    }),
    isAllowed: (from, to, target) => !isOneOf(to, 'a/web') || (isOneOf(from, 'outside') ? tcp(target, 9090) : tcp(target, 8080)),
  },
  {
    title: 'egress to pods by label',
    policies: () => ({ 'a/out': { podSelector: app('client'), policyTypes: ['Egress'], egress: [{ to: [{ podSelector: app('web') }] }] } }),
    isAllowed: (from, to) => !isOneOf(from, 'a/client') || isOneOf(to, 'a/web'),
  },
  {
    title: 'egress to namespaces by label, with a port',
    policies: () => ({
      'a/out': {
        podSelector: {},
        policyTypes: ['Egress'],
        egress: [{ to: [{ namespaceSelector: selectByLabel('blue') }], ports: [{ port: 9090 }] }],
      },
    }),
    isAllowed: (from, to, target) => !isIsolated(from, 'a') || (labelOf(to) === 'blue' && tcp(target, 9090)),
  },
  {
    title: 'egress to an ipBlock',
    policies: (block) => ({
      'b/out': { podSelector: {}, policyTypes: ['Egress'], egress: [{ to: [{ ipBlock: { cidr: block('outside') } }] }] },
    }),
    isAllowed: (from, to) => !isIsolated(from, 'b') || isOneOf(to, 'outside'),
  },
  {
    title: 'egress of the source and ingress of the destination must both allow',
    policies: () => ({
      'a/in': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: {} }] }] },
      'a/out': { podSelector: app('client'), policyTypes: ['Egress'], egress: [{ ports: [{ port: 8080 }] }] },
    }),
    isAllowed: (from, to, target) => (!isOneOf(to, 'a/web') || from.namespace === 'a') && (!isOneOf(from, 'a/client') || tcp(target, 8080)),
  },
  {
    title: 'policies without policyTypes isolate for ingress, and for egress if they have egress rules',
    policies: () => ({
      'a/in': { podSelector: app('db'), ingress: [{ from: [{ podSelector: app('web') }] }] },
      'b/out': { podSelector: app('client'), egress: [{ to: [{ podSelector: {} }] }] },
    }),
    isAllowed: (from, to) =>
      (!isOneOf(to, 'a/db') || isOneOf(from, 'a/web')) && !isOneOf(to, 'b/client') && (!isOneOf(from, 'b/client') || to.namespace === 'b'),
  },
  {
    title: 'policies apply to their own namespace only',
    policies: () => ({
      'c/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
      'b/web': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: app('web') }] }] },
    }),
    isAllowed: (from, to) => !isOneOf(to, 'b/web') && !isIsolated(from, 'c') && !isIsolated(to, 'c'),
  },
  {
    title: 'between nodes, egress of the source and ingress of the destination must both allow',
    policies: () => ({
      'c/out': {
        podSelector: {},
        policyTypes: ['Egress'],
        egress: [{ to: [{ namespaceSelector: selectByLabel('red') }], ports: [{ port: 8080 }] }],
      },
      'c/in': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ namespaceSelector: {}, podSelector: app('web') }] }] },
      'a/in': { podSelector: app('db'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: {} }] }] },
    }),
    isAllowed: (from, to, target) =>
      (!isOneOf(to, 'a/db') || from.namespace === 'a') &&
      (!isIsolated(from, 'c') || (labelOf(to) === 'red' && tcp(target, 8080))) &&
      (!isIsolated(to, 'c') || isOneOf(from, 'a/web', 'b/web')),
  },
  {
    title: 'several policies for one pod are additive',
    policies: () =>
      Object.fromEntries([
        ['a/deny', { podSelector: {}, policyTypes: ['Ingress'] }],
        ...['web', 'db', 'client'].map((name): [string, NetworkPolicySpec] => [
          `a/from-${name}`,
          {
            podSelector: app('web'),
            policyTypes: ['Ingress'],
            ingress: [{ from: [{ podSelector: app(name) }], ports: [{ port: name === 'db' ? 9090 : 8080 }] }],
          },
        ]),
      ]),
    isAllowed: (from, to, target) =>
      !isIsolated(to, 'a') ||
      (isOneOf(to, 'a/web') && ((isOneOf(from, 'a/client') && tcp(target, 8080)) || (isOneOf(from, 'a/db') && tcp(target, 9090)))),
  },
  {
    title: 'the labels of a pod select its policies',
    policies: () => ({ 'a/front': { podSelector: { matchLabels: { tier: 'front' } }, policyTypes: ['Ingress', 'Egress'] } }),
    isAllowed: (from, to) =>
      !(isIsolated(to, 'a') && hasLabel(to, 'tier', 'front')) && !(isIsolated(from, 'a') && hasLabel(from, 'tier', 'front')),
  },
];
