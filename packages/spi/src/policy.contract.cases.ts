import type { NetworkPolicySpec } from '@oarlock/api/types/networking-v1';

export type CaseProtocol = 'TCP' | 'UDP' | 'SCTP';

/** Where a packet may come from or go to. */
export interface CaseEnd {
  readonly key: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
  /** On a node that is tried; the others are elsewhere. */
  readonly local: boolean;
  /** No pod, but a machine outside. */
  readonly outside?: boolean;
  readonly ports: readonly { readonly name: string; readonly protocol: CaseProtocol; readonly containerPort: number }[];
}

const port = (name: string, containerPort: number, protocol: CaseProtocol = 'TCP') => ({ name, containerPort, protocol });

export const caseNamespaces: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  a: { team: 'red' },
  b: { team: 'blue' },
  c: { team: 'blue', env: 'prod' },
};

export const caseEnds: readonly CaseEnd[] = [
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

export interface CaseDoor {
  readonly protocol: CaseProtocol;
  readonly port: number;
}
export const caseDoors: readonly CaseDoor[] = [
  { protocol: 'TCP', port: 8080 },
  { protocol: 'TCP', port: 9090 },
  { protocol: 'UDP', port: 5353 },
  { protocol: 'SCTP', port: 2905 },
];

/** A set of policies by namespace and name, and what passes under them. `block` makes a CIDR of one end, in the family that is tried. */
export interface PolicyCase {
  readonly title: string;
  policies(block: (key: string) => string, everywhere: string): Readonly<Record<string, NetworkPolicySpec>>;
  /** Between two ends of which one at least is on this node. */
  passes(from: CaseEnd, to: CaseEnd, door: CaseDoor): boolean;
}

const is = (end: CaseEnd, ...keys: readonly string[]) => keys.includes(end.key);
const tcp = (door: CaseDoor, ...ports: readonly number[]) => door.protocol === 'TCP' && ports.includes(door.port);
const app = (name: string) => ({ matchLabels: { app: name } });
const team = (name: string) => ({ matchLabels: { team: name } });
const labelled = (end: CaseEnd, key: string, value: string) => end.labels[key] === value;
const teamOf = (end: CaseEnd) => caseNamespaces[end.namespace]?.['team'];
/** Only pods of nodes that are tried are held to policies here. */
const heldTo = (end: CaseEnd, namespace: string) => end.local && end.namespace === namespace;

export const policyCases: readonly PolicyCase[] = [
  { title: 'no policy lets everything pass', policies: () => ({}), passes: () => true },
  {
    title: 'an empty policy denies all ingress of its namespace',
    policies: () => ({ 'a/deny': { podSelector: {}, policyTypes: ['Ingress'] } }),
    passes: (_from, to) => !heldTo(to, 'a'),
  },
  {
    title: 'a policy of type Egress alone denies all egress and no ingress',
    policies: () => ({ 'a/deny': { podSelector: {}, policyTypes: ['Egress'] } }),
    passes: (from) => !heldTo(from, 'a'),
  },
  {
    title: 'default deny of both directions',
    policies: () => ({ 'b/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] } }),
    passes: (from, to) => !heldTo(from, 'b') && !heldTo(to, 'b'),
  },
  {
    title: 'an empty rule allows everything',
    policies: () => ({ 'a/allow': { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [{}], egress: [{}] } }),
    passes: () => true,
  },
  {
    title: 'denying and allowing policies add up to allowing',
    policies: () => ({
      'a/deny': { podSelector: {}, policyTypes: ['Ingress'] },
      'a/allow': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{}] },
    }),
    passes: (_from, to) => !heldTo(to, 'a') || is(to, 'a/web'),
  },
  {
    title: 'ingress from pods of the same namespace by label',
    policies: () => ({
      'a/web': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: app('client') }] }] },
    }),
    passes: (from, to) => !is(to, 'a/web') || is(from, 'a/client'),
  },
  {
    title: 'ingress from all pods of the same namespace',
    policies: () => ({ 'a/own': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: {} }] }] } }),
    passes: (from, to) => !heldTo(to, 'a') || from.namespace === 'a',
  },
  {
    title: 'ingress from namespaces by label',
    policies: () => ({
      'a/blue': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ namespaceSelector: team('blue') }] }] },
    }),
    passes: (from, to) => !heldTo(to, 'a') || teamOf(from) === 'blue',
  },
  {
    title: 'ingress from every namespace leaves out what is no pod',
    policies: () => ({ 'a/pods': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ namespaceSelector: {} }] }] } }),
    passes: (from, to) => !heldTo(to, 'a') || from.outside !== true,
  },
  {
    title: 'namespace and pod selector in one peer have to hold both',
    policies: () => ({
      'a/and': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ namespaceSelector: team('blue'), podSelector: app('web') }] }],
      },
    }),
    passes: (from, to) => !is(to, 'a/web') || is(from, 'b/web'),
  },
  {
    title: 'namespace and pod selector in two peers need one to hold',
    policies: () => ({
      'a/or': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ namespaceSelector: team('blue') }, { podSelector: app('db') }] }],
      },
    }),
    passes: (from, to) => !is(to, 'a/web') || teamOf(from) === 'blue' || is(from, 'a/db'),
  },
  {
    title: 'a selector by expressions',
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
    passes: (from, to) => !is(to, 'a/web', 'a/db') || is(from, 'a/web', 'a/db', 'b/web'),
  },
  {
    title: 'a peer whose selector nothing matches lets nobody in',
    policies: () => ({
      'a/none': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: app('nobody') }] }] },
    }),
    passes: (_from, to) => !is(to, 'a/web'),
  },
  {
    title: 'a port by number, of TCP where no protocol is named',
    policies: () => ({ 'a/port': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 8080 }] }] } }),
    passes: (_from, to, door) => !is(to, 'a/web') || tcp(door, 8080),
  },
  {
    title: 'a port of UDP',
    policies: () => ({
      'a/udp': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 5353, protocol: 'UDP' }] }] },
    }),
    passes: (_from, to, door) => !is(to, 'a/web') || door.protocol === 'UDP',
  },
  {
    title: 'ports of SCTP: by number, of another number, and all of them',
    policies: () => ({
      'a/number': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 2905, protocol: 'SCTP' }] }] },
      'b/other': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 2906, protocol: 'SCTP' }] }] },
      'a/all': { podSelector: app('db'), policyTypes: ['Ingress'], ingress: [{ ports: [{ protocol: 'SCTP' }] }] },
    }),
    passes: (_from, to, door) => !is(to, 'b/web') && (!is(to, 'a/web', 'a/db') || door.protocol === 'SCTP'),
  },
  {
    title: 'a named port of SCTP',
    policies: () => ({
      'a/named': { podSelector: app('client'), policyTypes: ['Egress'], egress: [{ ports: [{ port: 'm3ua', protocol: 'SCTP' }] }] },
    }),
    passes: (from, to, door) => !is(from, 'a/client') || (is(to, 'a/web') && door.protocol === 'SCTP'),
  },
  {
    title: 'a protocol without a port is every port of it',
    policies: () => ({ 'a/tcp': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ protocol: 'TCP' }] }] } }),
    passes: (_from, to, door) => !is(to, 'a/web') || door.protocol === 'TCP',
  },
  {
    title: 'a port of another protocol does not open the same number',
    policies: () => ({
      'a/udp': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 8080, protocol: 'UDP' }] }] },
    }),
    passes: (_from, to) => !is(to, 'a/web'),
  },
  {
    title: 'a range of ports',
    policies: () => ({
      'a/range': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 8000, endPort: 8999 }] }] },
    }),
    passes: (_from, to, door) => !is(to, 'a/web') || tcp(door, 8080),
  },
  {
    title: 'ranges of ports that overlap',
    policies: () => ({
      'a/ranges': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ ports: [{ port: 8000, endPort: 9000 }, { port: 8080 }, { port: 8500, endPort: 9090 }] }],
      },
    }),
    passes: (_from, to, door) => !is(to, 'a/web') || tcp(door, 8080, 9090),
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
    passes: (_from, to, door) => !is(to, 'a/web') || tcp(door, 9090) || door.protocol === 'UDP',
  },
  {
    title: 'a named port is what each pod of the policy calls so',
    policies: () => ({ 'a/named': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ ports: [{ port: 'http' }] }] } }),
    passes: (_from, to, door) => !heldTo(to, 'a') || (is(to, 'a/web') && tcp(door, 8080)) || (is(to, 'a/db') && tcp(door, 9090)),
  },
  {
    title: 'a named port of egress is what each peer calls so',
    policies: () => ({
      'a/named': {
        podSelector: app('client'),
        policyTypes: ['Egress'],
        egress: [{ to: [{ namespaceSelector: {} }], ports: [{ port: 'http' }] }],
      },
    }),
    passes: (from, to, door) =>
      !is(from, 'a/client') || (is(to, 'a/web', 'b/web') && tcp(door, 8080)) || (is(to, 'a/db', 'c/far') && tcp(door, 9090)),
  },
  {
    title: 'a named port of egress without peers is that of every pod',
    policies: () => ({
      'a/named': { podSelector: app('client'), policyTypes: ['Egress'], egress: [{ ports: [{ port: 'dns', protocol: 'UDP' }] }] },
    }),
    passes: (from, to, door) => !is(from, 'a/client') || (is(to, 'a/web') && door.protocol === 'UDP'),
  },
  {
    title: 'peers and ports of one rule have to hold both',
    policies: () => ({
      'a/both': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ podSelector: app('client') }], ports: [{ port: 8080 }] }],
      },
    }),
    passes: (from, to, door) => !is(to, 'a/web') || (is(from, 'a/client') && tcp(door, 8080)),
  },
  {
    title: 'of several rules one has to hold',
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
    passes: (from, to, door) => !is(to, 'a/web') || (is(from, 'a/client') && tcp(door, 8080)) || (is(from, 'a/db') && tcp(door, 9090)),
  },
  {
    title: 'a block of addresses lets in what is outside',
    policies: (block) => ({
      'a/block': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ ipBlock: { cidr: block('outside') } }] }] },
    }),
    passes: (from, to) => !is(to, 'a/web') || is(from, 'outside'),
  },
  {
    title: 'a block of everything but some',
    policies: (block, everywhere) => ({
      'a/except': {
        podSelector: app('web'),
        policyTypes: ['Ingress'],
        ingress: [{ from: [{ ipBlock: { cidr: everywhere, except: [block('outside'), block('b/client')] } }] }],
      },
    }),
    passes: (from, to) => !is(to, 'a/web') || !is(from, 'outside', 'b/client'),
  },
  {
    title: 'a block with a port, and what the exception denies another rule allows',
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
    passes: (from, to, door) => !is(to, 'a/web') || (is(from, 'outside') ? tcp(door, 9090) : tcp(door, 8080)),
  },
  {
    title: 'egress to pods by label',
    policies: () => ({ 'a/out': { podSelector: app('client'), policyTypes: ['Egress'], egress: [{ to: [{ podSelector: app('web') }] }] } }),
    passes: (from, to) => !is(from, 'a/client') || is(to, 'a/web'),
  },
  {
    title: 'egress to namespaces by label, with a port',
    policies: () => ({
      'a/out': {
        podSelector: {},
        policyTypes: ['Egress'],
        egress: [{ to: [{ namespaceSelector: team('blue') }], ports: [{ port: 9090 }] }],
      },
    }),
    passes: (from, to, door) => !heldTo(from, 'a') || (teamOf(to) === 'blue' && tcp(door, 9090)),
  },
  {
    title: 'egress to a block',
    policies: (block) => ({
      'b/out': { podSelector: {}, policyTypes: ['Egress'], egress: [{ to: [{ ipBlock: { cidr: block('outside') } }] }] },
    }),
    passes: (from, to) => !heldTo(from, 'b') || is(to, 'outside'),
  },
  {
    title: 'egress of the one end and ingress of the other have to hold both',
    policies: () => ({
      'a/in': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: {} }] }] },
      'a/out': { podSelector: app('client'), policyTypes: ['Egress'], egress: [{ ports: [{ port: 8080 }] }] },
    }),
    passes: (from, to, door) => (!is(to, 'a/web') || from.namespace === 'a') && (!is(from, 'a/client') || tcp(door, 8080)),
  },
  {
    title: 'policies without types isolate for ingress, and for egress where they have rules of it',
    policies: () => ({
      'a/in': { podSelector: app('db'), ingress: [{ from: [{ podSelector: app('web') }] }] },
      'b/out': { podSelector: app('client'), egress: [{ to: [{ podSelector: {} }] }] },
    }),
    passes: (from, to) => (!is(to, 'a/db') || is(from, 'a/web')) && !is(to, 'b/client') && (!is(from, 'b/client') || to.namespace === 'b'),
  },
  {
    title: 'policies of one namespace do not reach into another',
    policies: () => ({
      'c/deny': { podSelector: {}, policyTypes: ['Ingress', 'Egress'] },
      'b/web': { podSelector: app('web'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: app('web') }] }] },
    }),
    passes: (from, to) => !is(to, 'b/web') && !heldTo(from, 'c') && !heldTo(to, 'c'),
  },
  {
    title: 'between nodes, egress of the one end and ingress of the other have to hold both',
    policies: () => ({
      'c/out': {
        podSelector: {},
        policyTypes: ['Egress'],
        egress: [{ to: [{ namespaceSelector: team('red') }], ports: [{ port: 8080 }] }],
      },
      'c/in': { podSelector: {}, policyTypes: ['Ingress'], ingress: [{ from: [{ namespaceSelector: {}, podSelector: app('web') }] }] },
      'a/in': { podSelector: app('db'), policyTypes: ['Ingress'], ingress: [{ from: [{ podSelector: {} }] }] },
    }),
    passes: (from, to, door) =>
      (!is(to, 'a/db') || from.namespace === 'a') &&
      (!heldTo(from, 'c') || (teamOf(to) === 'red' && tcp(door, 8080))) &&
      (!heldTo(to, 'c') || is(from, 'a/web', 'b/web')),
  },
  {
    title: 'many policies for one pod add up',
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
    passes: (from, to, door) =>
      !heldTo(to, 'a') || (is(to, 'a/web') && ((is(from, 'a/client') && tcp(door, 8080)) || (is(from, 'a/db') && tcp(door, 9090)))),
  },
  {
    title: 'a label of the pod decides which policies hold',
    policies: () => ({ 'a/front': { podSelector: { matchLabels: { tier: 'front' } }, policyTypes: ['Ingress', 'Egress'] } }),
    passes: (from, to) => !(heldTo(to, 'a') && labelled(to, 'tier', 'front')) && !(heldTo(from, 'a') && labelled(from, 'tier', 'front')),
  },
];
