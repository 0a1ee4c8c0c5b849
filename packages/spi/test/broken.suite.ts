// Run by can-fail.test.ts alone: each contract over an implementation that breaks one promise. `breaks` names the test that has to fail.
import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { configMaps, pods } from '@oarlock/api/resources';
import { splitKey, type KubeObject } from '@oarlock/api/object';
import { SharedInformers } from '@oarlock/client/informers';
import { allow, deny, type AdmissionPlugin } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission.contract';
import type { AuditEvent } from '@oarlock/spi/audit';
import { auditContract } from '@oarlock/spi/audit.contract';
import { abstained, authenticated, rejected, type Authenticator, type Credentials } from '@oarlock/spi/authn';
import { authnContract, bare, bearer } from '@oarlock/spi/authn.contract';
import { noOpinion, type Attributes, type Decision } from '@oarlock/spi/authz';
import { ask, authzContract, user } from '@oarlock/spi/authz.contract';
import { watch, type Controller } from '@oarlock/spi/controller';
import { controllerContract, type ControllerScenario } from '@oarlock/spi/controller.contract';
import { dnsContract } from '@oarlock/spi/dns.contract';
import type { ProxyChanges, ProxyEndpoint, ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import { proxyContract } from '@oarlock/spi/proxy.contract';
import { roleContract } from '@oarlock/spi/role.contract';
import { schedulingContract } from '@oarlock/spi/scheduling.contract';
import { success, unschedulable, type SchedulingPlugin } from '@oarlock/spi/scheduling';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { memoryApi, type MemoryApi } from '@oarlock/testing/memory-api';
import { expect } from 'vitest';
import type { Answer, Question } from './reference/dns-message.ts';
import { BufferedSink } from './reference/audit-sink.ts';
import { ReferenceDns } from './reference/dns-server.ts';

const breaks = (what: string, test: string) => `${what} | ${test}`;

// authn ------------------------------------------------------------------------------------------------------------------
const token = 'tok-0123456789abcdef';
const alice = { name: 'alice', groups: ['system:authenticated'] };
const authn = (what: string, test: string, authenticate: (credentials: Credentials) => ReturnType<Authenticator['authenticate']>) =>
  authnContract(breaks(what, test), () => ({
    authenticator: { authenticate },
    known: [{ title: 'alice', credentials: bearer(token), identity: alice }],
    wrong: [{ title: 'expired', credentials: bearer('tok-expired') }],
    secrets: [token, 'tok-expired'],
    breakDown: () => {},
  }));
const right = ({ bearerToken }: Credentials) =>
  bearerToken === token ? authenticated(alice) : bearerToken === 'tok-expired' ? rejected('expired') : abstained;
authn('lets in who shows nothing', 'abstains when nothing is shown', (shown) =>
  shown.bearerToken === undefined ? authenticated(alice) : right(shown),
);
authn('believes a header', 'abstains when nothing is shown', (shown) =>
  shown.headers['x-remote-user'] === undefined ? right(shown) : authenticated(alice),
);
authn('throws on what it cannot read', 'takes malformed tokens calmly', (shown) => {
  if (/[^\w.-]/.test(shown.bearerToken ?? '')) throw new TypeError('what is this');
  return right(shown);
});
authn('compares the beginning only', 'takes no token that differs', (shown) =>
  shown.bearerToken?.startsWith(token) ? authenticated(alice) : right(shown),
);
authn('tells the token', 'does not let in the wrong ones', (shown) =>
  shown.bearerToken === 'tok-expired' ? rejected(`token ${shown.bearerToken} is expired`) : right(shown),
);
authn('forgets a group', 'knows its senders', (shown) =>
  right(shown).outcome === 'authenticated' ? authenticated({ name: 'alice', groups: [] }) : right(shown),
);
let last: Credentials = bare();
authn('mixes callers up', 'answers the same when many ask', async (shown) => {
  last = shown;
  await Promise.resolve();
  return right(last);
});

// authz ------------------------------------------------------------------------------------------------------------------
const dev = user('bob', 'dev');
const authz = (what: string, test: string, authorize: (asked: Attributes) => Decision) =>
  authzContract(breaks(what, test), () => ({
    authorizer: { authorize },
    allowed: [ask(dev, 'get', 'pods')],
    open: [ask(dev, 'delete', 'pods'), ask(user('eve'), 'get', 'pods')],
  }));
const yes: Decision = { decision: 'allow', because: 'a developer' };
const mayRead = ({ kind, verb }: Attributes) => kind === 'resource' && verb === 'get';
authz('takes a group that begins like it', 'takes names and groups literally', (asked) =>
  mayRead(asked) && asked.identity.groups.some((group) => group.startsWith('dev')) ? yes : noOpinion,
);
authz('allows a stranger what nobody thought of', 'allows a stranger nothing', (asked) =>
  asked.kind === 'path' || (mayRead(asked) && asked.identity.groups.includes('dev')) ? yes : noOpinion,
);
authz('allows without a reason', 'allows what it is for', (asked) =>
  mayRead(asked) && asked.identity.groups.includes('dev') ? { decision: 'allow', because: '' } : noOpinion,
);
let calls = 0;
authz('allows every other time', 'allows what it is for', (asked) =>
  mayRead(asked) && asked.identity.groups.includes('dev') && calls++ % 2 === 1 ? yes : noOpinion,
);

// admission --------------------------------------------------------------------------------------------------------------
const pod = (labels: Record<string, string> = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { namespace: 'd', name: 'p', labels },
});
const labelled = (object: KubeObject): KubeObject => ({
  ...object,
  metadata: { ...object.metadata, labels: { ...object.metadata?.labels, seen: 'yes' } },
});
const admission = (what: string, test: string, plugin: Partial<AdmissionPlugin>) =>
  admissionContract(breaks(what, test), () => ({
    plugin: { matches: [{ resources: ['pods'], operations: ['CREATE'] }], ...plugin },
    cases: [
      { title: 'good', request: admissionRequest('CREATE', pods, pod()), outcome: 'allowed' },
      { title: 'bad', request: admissionRequest('CREATE', pods, pod({ bad: 'yes' })), outcome: 'denied' },
    ],
    breakDown: () => {
      broken = true;
    },
    dispose: async () => {
      broken = false;
    },
  }));
let broken = false;
const refuse: AdmissionPlugin['validate'] = ({ object }) => (object?.metadata?.labels?.['bad'] === undefined ? allow : deny('it is bad'));
admission('changes what it is given', 'leaves what it is given', {
  validate: refuse,
  mutate({ object }) {
    if (object?.metadata !== undefined) (object.metadata as { labels?: unknown }).labels = { seen: 'yes' };
    return object ?? allow;
  },
});
admission('copies every time', 'changes an object once', {
  validate: refuse,
  mutate: ({ object }) => (object === undefined ? allow : labelled(object)),
});
admission('counts its visits', 'changes an object once', {
  validate: refuse,
  mutate: ({ object }) =>
    object === undefined
      ? allow
      : {
          ...object,
          metadata: {
            ...object.metadata,
            labels: {
              visits: String(Number(object.metadata?.labels?.['visits'] ?? 0) + 1),
              ...(object.metadata?.labels?.['bad'] && { bad: 'yes' }),
            },
          },
        },
});
admission('renames the object', 'changes neither what the object is', {
  validate: refuse,
  mutate: ({ object }) =>
    object === undefined || object.metadata?.name === 'mine'
      ? (object ?? allow)
      : { ...object, metadata: { ...object.metadata, name: 'mine' } },
});
admission('lets pass what it cannot look up', 'admits nothing on the strength', {
  validate: (request) => (broken ? allow : refuse(request)),
});
admission('matches something else', 'reaches every request', {
  matches: [{ resources: ['pods/status'], operations: ['CREATE'] }],
  validate: refuse,
});
admission('refuses without a word', 'decides as it should', {
  validate: ({ object }) => (object?.metadata?.labels?.['bad'] === undefined ? allow : deny('')),
});

// audit ------------------------------------------------------------------------------------------------------------------
const audit = (what: string, test: string, make: (take: (events: readonly AuditEvent[]) => Promise<void>) => BufferedSink) =>
  auditContract(breaks(what, test), () => {
    const kept: AuditEvent[] = [];
    let gate: Promise<void> | undefined;
    let open = () => {};
    const sink = make(async (events) => {
      await gate;
      kept.push(...events);
    });
    return {
      sink,
      bound: 100,
      dropped: () => sink.dropped,
      stop: () => sink.stop(),
      kept: async () => {
        await sink.flush();
        return kept;
      },
      stall: () => {
        gate = new Promise((resolve) => {
          open = resolve;
        });
      },
      resume: () => {
        gate = undefined;
        open();
      },
    };
  });
audit('keeps without end', 'drops and counts', (take) => new BufferedSink(Number.POSITIVE_INFINITY, take));
audit('turns the order round', 'keeps every event once, in order', (take) => new BufferedSink(100, (events) => take(events.toReversed())));
audit('keeps twice', 'keeps every event once, in order', (take) => new BufferedSink(100, (events) => take([...events, ...events])));
audit('loses what waits at the end', 'loses nothing that waits', (take) => {
  const sink = new BufferedSink(100, async (events) => {
    await Promise.resolve();
    if (!stopping) await take(events);
  });
  let stopping = false;
  const stop = sink.stop.bind(sink);
  sink.stop = () => {
    stopping = true;
    return stop();
  };
  return sink;
});

// scheduling -------------------------------------------------------------------------------------------------------------
const scheduling = (what: string, test: string, plugin: Omit<SchedulingPlugin, 'name'>) =>
  schedulingContract(breaks(what, test), () => ({ plugin: { name: 'Broken', ...plugin } }));
let asked = 0;
scheduling('filters by chance', 'filters purely', { filter: () => (asked++ % 3 === 0 ? unschedulable('not today') : success) });
scheduling('scores beyond the range', 'scores from 0 to 100', { score: (_state, _pod, node) => node.pods.length * 100 });
scheduling('scores nothing at all', 'scores from 0 to 100', { score: () => Number.NaN });
scheduling('divides by nothing', 'scores from 0 to 100', {
  score: () => 0,
  normalize: (_state, _pod, _nodes, scores) => {
    const max = Math.max(...scores);
    for (const [index, score] of scores.entries()) scores[index] = (score * 100) / max;
  },
});
scheduling('refuses without a reason', 'answers every pod and node at once', { filter: () => unschedulable() });
scheduling('answers later', 'answers every pod and node at once', {
  filter: (async () => success) as unknown as NonNullable<SchedulingPlugin['filter']>,
});
scheduling('sleeps through a node that changes', 'wakes a pod that it refused when a node changes', {
  requeueOn: [{ kind: 'Node', on: ['added'] }],
  filter: (_state, _pod, { node }) => (node.spec?.unschedulable === true ? unschedulable('no') : success),
});
scheduling('skips the change that helps', 'wakes a pod that it refused when a node changes', {
  requeueOn: [{ kind: 'Node', on: ['added', 'updated'], hint: () => 'skip' }],
  filter: (_state, _pod, { node }) => (node.spec?.unschedulable === true ? unschedulable('no') : success),
});
scheduling('sleeps through a pod that goes', 'wakes a pod that it refused when a pod goes', {
  requeueOn: [{ kind: 'Node', on: ['added', 'updated'] }],
  filter: (_state, _pod, node) => (node.pods.length > 0 ? unschedulable('taken') : success),
});
scheduling('sleeps through a node that comes', 'wakes a pod that it refused everywhere when a node comes', {
  requeueOn: [
    { kind: 'Node', on: ['updated'] },
    { kind: 'AssignedPod', on: ['deleted'] },
  ],
  filter: (_state, pod, node) => (pod.requests.milliCpu > node.allocatable.milliCpu ? unschedulable('small') : success),
});
scheduling('sorts in a circle', 'sorts the queue consistently', { queueSort: (a, b) => (a.key === b.key ? 0 : 1) });

// controllers ------------------------------------------------------------------------------------------------------------
const copies: ControllerScenario<MemoryApi> = {
  title: 'copies',
  steps: [
    (api) => {
      api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' }, data: { v: '1' } });
    },
    (api) => {
      api.seed(configMaps, { metadata: { namespace: 'd', name: 'a' }, data: { v: '2' } });
    },
  ],
  holds: (api) => {
    const made = api.objects(configMaps, 'd').filter(({ metadata }) => metadata?.name?.startsWith('copy-'));
    expect(made.map(({ data }) => data)).toEqual([{ v: '2' }]);
  },
};
const controller = (what: string, test: string, make: (informer: ReturnType<SharedInformers['of']>) => Controller['reconcile']) =>
  controllerContract<MemoryApi>(breaks(what, test), {
    open() {
      const clock = new FakeClock();
      return { clock, api: memoryApi({ clock }), informers: (client) => new SharedInformers({ client, clock }) };
    },
    create({ informers }) {
      const maps = informers.of(configMaps);
      return {
        name: 'copier',
        watches: [watch(maps, ({ metadata }) => (metadata?.name?.startsWith('copy-') ? [] : [`${metadata?.namespace}/${metadata?.name}`]))],
        reconcile: make(maps),
      };
    },
    scenarios: [copies],
  });
type Data = KubeObject & { readonly data?: Record<string, string> };
controller('makes another one each time', 'gets there, and then leaves everything alone', (maps) => async (key, { client }) => {
  const found = maps.get(key) as Data | undefined;
  if (found !== undefined) await client.create(configMaps, { metadata: { namespace: 'd', generateName: 'copy-' }, data: found.data ?? {} });
});
controller('writes whether or not', 'gets there, and then leaves everything alone', (maps) => async (key, { client }) => {
  const found = maps.get(key) as Data | undefined;
  if (found === undefined) return;
  const name = `copy-${splitKey(key).name}`;
  if (maps.get(`d/${name}`)) await client.patch(configMaps, { namespace: 'd', name }, 'merge', { data: found.data });
  else await client.create(configMaps, { metadata: { namespace: 'd', name }, data: found.data ?? {} });
});
const careful =
  (swallow: boolean, remember: boolean) =>
  (maps: ReturnType<SharedInformers['of']>): Controller['reconcile'] => {
    const done = new Map<string, string>();
    return async (key, { client }) => {
      const found = maps.get(key) as Data | undefined;
      if (found === undefined) return;
      const name = `copy-${splitKey(key).name}`;
      const present = maps.get(`d/${name}`) as Data | undefined;
      const wanted = JSON.stringify(found.data);
      if (remember ? done.get(key) === wanted : JSON.stringify(present?.data) === wanted) return;
      if (remember) done.set(key, wanted); // before it is written
      try {
        if (present) await client.patch(configMaps, { namespace: 'd', name }, 'merge', { data: found.data });
        else await client.create(configMaps, { metadata: { namespace: 'd', name }, data: found.data ?? {} });
      } catch (error) {
        if (!swallow) throw error;
      }
    };
  };
controller('swallows what goes wrong', 'gets there whichever write ends in: unavailable', careful(true, false));
controller('remembers what it has not done', 'gets there whichever write ends in: unavailable', careful(false, true));
controller('needs what it remembers', 'changes nothing when it starts again at rest', (maps) => {
  let known = false;
  return async (key, { client }) => {
    const found = maps.get(key) as Data | undefined;
    if (found === undefined) return;
    const name = `copy-${splitKey(key).name}`;
    if (!known) {
      if (maps.get(`d/${name}`)) await client.delete(configMaps, { namespace: 'd', name });
      await client.create(configMaps, { metadata: { namespace: 'd', name }, data: found.data ?? {} });
      known = true;
    } else if (JSON.stringify((maps.get(`d/${name}`) as Data | undefined)?.data) !== JSON.stringify(found.data))
      await client.patch(configMaps, { namespace: 'd', name }, 'merge', { data: found.data });
  };
});
controller('gives up when somebody was faster', 'gets there whichever write ends in: raced', (maps) => async (key, { client }) => {
  const found = maps.get(key) as Data | undefined;
  if (found === undefined) return;
  const name = `copy-${splitKey(key).name}`;
  const present = maps.get(`d/${name}`) as Data | undefined;
  if (present === undefined) await client.create(configMaps, { metadata: { namespace: 'd', name }, data: found.data ?? {} });
  else if (JSON.stringify(present.data) !== JSON.stringify(found.data))
    await client.update(configMaps, { ...present, data: found.data ?? {} }).catch(() => {});
});
controller('believes a cache that cannot know yet', 'gets there whichever write ends in: unseen', (maps) => async (key, { client }) => {
  const found = maps.get(key) as Data | undefined;
  if (found === undefined) return;
  const [present, ...more] = (maps.list('d') as readonly Data[]).filter(({ metadata }) => metadata?.name?.startsWith('copy-'));
  for (const { metadata } of more) await client.delete(configMaps, { namespace: 'd', name: metadata?.name ?? '' });
  if (present === undefined)
    await client.create(configMaps, { metadata: { namespace: 'd', generateName: 'copy-' }, data: found.data ?? {} });
  else if (JSON.stringify(present.data) !== JSON.stringify(found.data))
    await client.patch(configMaps, { namespace: 'd', name: present.metadata?.name ?? '' }, 'merge', { data: found.data });
});
controller('never rests', 'gets there, and then leaves everything alone', (maps) => {
  const careless = careful(false, false)(maps);
  return async (key, context) => {
    await careless(key, context);
    return { requeueAfterMs: 0 };
  };
});

// proxy ------------------------------------------------------------------------------------------------------------------
/** TCP alone, one server per Service address. */
class SmallProxy implements ServiceProxy {
  protected readonly ports = new Map<string, ServicePort>();
  protected readonly servers = new Map<string, Server>();
  protected readonly sockets = new Set<Socket>();
  #next = 0;
  async apply({ replace, set, removed }: ProxyChanges): Promise<void> {
    const wanted = new Set(set.map(({ key }) => key));
    for (const key of replace ? [...this.ports.keys()].filter((each) => !wanted.has(each)) : removed) this.ports.delete(key);
    for (const port of set) this.ports.set(port.key, port);
    const doors = new Map(
      [...this.ports.values()].flatMap((port) => port.clusterIPs.map((ip): readonly [string, string] => [`${ip} ${port.port}`, port.key])),
    );
    for (const [door, server] of this.servers)
      if (!doors.has(door) || this.reopens()) {
        this.servers.delete(door);
        server.close();
        await once(server, 'close').catch(() => {});
      }
    for (const door of doors.keys()) if (!this.servers.has(door)) await this.#listen(door);
  }
  protected reopens(): boolean {
    return false;
  }
  protected choose(endpoints: readonly ProxyEndpoint[]): ProxyEndpoint | undefined {
    return endpoints[this.#next++ % endpoints.length];
  }
  async #listen(door: string): Promise<void> {
    const [ip = '', port = '0'] = door.split(' ');
    const server = createServer({ allowHalfOpen: true }, (client) => {
      const found = [...this.ports.values()].find((each) => each.clusterIPs.includes(ip) && each.port === Number(port));
      const eligible = found?.endpoints.filter(({ local }) => local || !found.internalLocal) ?? [];
      const endpoint = this.choose(eligible);
      client.on('error', () => client.destroy());
      if (endpoint === undefined) {
        client.resetAndDestroy();
        return;
      }
      const upstream = connect({ host: endpoint.ip, port: endpoint.port, allowHalfOpen: true });
      for (const each of [client, upstream]) {
        this.sockets.add(each);
        each.on('close', () => this.sockets.delete(each));
      }
      upstream.on('error', () => client.destroy());
      client.pipe(upstream).pipe(client);
    });
    this.servers.set(door, server);
    server.listen(Number(port), ip);
    await once(server, 'listening');
  }
  async stop(): Promise<void> {
    for (const socket of this.sockets) socket.destroy();
    for (const server of this.servers.values()) server.close();
  }
}
const proxy = (what: string, test: string, make: () => SmallProxy) => {
  proxyContract(breaks(what, test), async () => {
    const made = make();
    return {
      proxy: made,
      podAddresses: [1, 2, 3, 4].map((n) => `127.131.7.${n}`),
      serviceAddresses: [1, 2, 3, 4].map((n) => `127.97.8.${n}`),
      lacks: { udp: 'small', affinity: 'small', nodePort: 'small', external: 'small', sourceRanges: 'small' },
      dispose: () => made.stop(),
    };
  });
};
proxy('nothing', 'nothing', () => new SmallProxy());
proxy(
  'closes for a moment',
  'refuses no connection while',
  () =>
    new (class extends SmallProxy {
      protected override reopens(): boolean {
        return true;
      }
    })(),
);
proxy(
  'uses one endpoint only',
  'reaches every endpoint',
  () =>
    new (class extends SmallProxy {
      protected override choose(endpoints: readonly ProxyEndpoint[]): ProxyEndpoint | undefined {
        return endpoints[0];
      }
    })(),
);
proxy(
  'cuts everybody off',
  'leaves connections to endpoints that stay',
  () =>
    new (class extends SmallProxy {
      override async apply(changes: ProxyChanges): Promise<void> {
        for (const socket of this.sockets) socket.destroy();
        await super.apply(changes);
      }
    })(),
);
proxy(
  'never takes anything away',
  'no longer serves what was removed',
  () =>
    new (class extends SmallProxy {
      override apply(changes: ProxyChanges): Promise<void> {
        return super.apply({ ...changes, removed: [] });
      }
    })(),
);
proxy(
  'knows no replace',
  'replaces everything that was before',
  () =>
    new (class extends SmallProxy {
      override apply(changes: ProxyChanges): Promise<void> {
        return super.apply({ ...changes, replace: false });
      }
    })(),
);
proxy(
  'changes a little later',
  'has changed when apply has returned',
  () =>
    new (class extends SmallProxy {
      override async apply(changes: ProxyChanges): Promise<void> {
        if (this.ports.size === 0) await super.apply(changes);
        else setTimeout(() => void super.apply(changes), 50);
      }
    })(),
);

// dns --------------------------------------------------------------------------------------------------------------------
const dns = (what: string, test: string, make: () => ReferenceDns) =>
  dnsContract(breaks(what, test), async () => {
    const server = make();
    await server.start();
    return {
      server,
      endpoint: { ip: server.address, port: server.port },
      lacks: { forward: 'not this time' },
      dispose: () => server.stop(),
    };
  });
dns(
  'says no such name for no such data',
  'says no such name, and no such data',
  () =>
    new (class extends ReferenceDns {
      protected override answersOf(question: Question, name: string): readonly Answer[] | undefined {
        const answers = super.answersOf(question, name);
        return answers?.length === 0 ? undefined : answers;
      }
    })(),
);
dns(
  'says no such data for no such name',
  'says no such name, and no such data',
  () =>
    new (class extends ReferenceDns {
      protected override answersOf(question: Question, name: string): readonly Answer[] {
        return super.answersOf(question, name) ?? [];
      }
    })(),
);
dns(
  'forgets nothing',
  'replaces everything that was before',
  () =>
    new (class extends ReferenceDns {
      override apply(changes: Parameters<ReferenceDns['apply']>[0]): Promise<void> {
        return super.apply({ ...changes, replace: false });
      }
    })(),
);
dns(
  'is empty while it changes',
  'never answers half of a change',
  () =>
    new (class extends ReferenceDns {
      override async apply(changes: Parameters<ReferenceDns['apply']>[0]): Promise<void> {
        if (changes.replace) {
          await super.apply({ replace: true, set: [], removed: [] });
          await new Promise<void>((resolve) => {
            setTimeout(resolve, 5);
          });
        }
        await super.apply(changes);
      }
    })(),
);
dns(
  'answers one address',
  'answers every address of a headless Service',
  () =>
    new (class extends ReferenceDns {
      protected override answersOf(question: Question, name: string): readonly Answer[] | undefined {
        return super.answersOf(question, name)?.slice(0, 1);
      }
    })(),
);
dns(
  'cuts large answers for good',
  'answers more addresses than a datagram holds',
  () =>
    new (class extends ReferenceDns {
      override answer(message: Buffer): Promise<Buffer | undefined> {
        return super.answer(message, 512);
      }
    })(),
);

// roles ------------------------------------------------------------------------------------------------------------------
const role = (what: string, test: string, make: (held: { timers: number }) => Partial<Parameters<typeof roleContract>[1]> & object) =>
  roleContract(breaks(what, test), () => {
    const held = { timers: 0 };
    return {
      role: {
        name: 'broken',
        health: () => ({ healthy: true as const }),
        start: async () => {
          held.timers += 1;
        },
        stop: async () => {
          held.timers = 0;
        },
        ready: async () => {},
        ...make(held),
      },
      held: () => ({ ...held }),
    };
  });
role('keeps a timer', 'releases everything when it stops', () => ({ stop: async () => {} }));
role('cannot stop without a start', 'stops at once after start, twice, and when it never started', (held) => ({
  stop: async () => {
    if (held.timers === 0) throw new Error('not started');
    held.timers = 0;
  },
}));
role('is ill without a reason', 'answers for its health', () => ({ health: () => ({ healthy: false, because: '' }) }));
role('changes something when it is asked', 'answers for its health', (held) => ({
  health: () => {
    held.timers += 1;
    return { healthy: true };
  },
}));
role('has a strange name', 'has a name that does not change', () => ({ name: 'My Role' }));
role('waits to be ready whatever happens', 'stops waiting to be ready', () => ({ ready: () => new Promise<void>(() => {}) }));
