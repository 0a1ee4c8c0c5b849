// Run by contracts-detect-faults.test.ts only: each contract with an implementation that violates one guarantee. `breaks` names the
// violation and the test that must fail.
import { createServer, connect, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { configMaps, pods } from '@oarlock/api/resources';
import { splitKey, type KubeObject } from '@oarlock/api/object';
import { SharedInformerFactory } from '@oarlock/client/cache/shared-informer-factory';
import { allow, deny, type AdmissionPlugin } from '@oarlock/spi/admission';
import { admissionContract, admissionRequest } from '@oarlock/spi/admission/contract';
import type { AuditEvent } from '@oarlock/spi/audit';
import { auditContract } from '@oarlock/spi/audit/contract';
import { abstained, authenticated, rejected, type Authenticator, type Credentials } from '@oarlock/spi/authn';
import { authnContract, noCredentials, bearerCredentials } from '@oarlock/spi/authn/contract';
import { noOpinion, type Attributes, type Decision } from '@oarlock/spi/authz';
import { resourceAttributes, authzContract, user } from '@oarlock/spi/authz/contract';
import { watch, type Controller } from '@oarlock/spi/controller';
import { controllerContract, type ControllerScenario } from '@oarlock/spi/controller/contract';
import { dnsContract } from '@oarlock/spi/dns/contract';
import type { ProxyChanges, ProxyEndpoint, ServicePort, ServiceProxy } from '@oarlock/spi/proxy';
import { proxyContract } from '@oarlock/spi/proxy/contract';
import { roleContract } from '@oarlock/spi/role/contract';
import { schedulingContract } from '@oarlock/spi/scheduling/contract';
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
    known: [{ title: 'alice', credentials: bearerCredentials(token), identity: alice }],
    invalid: [{ title: 'expired', credentials: bearerCredentials('tok-expired') }],
    secrets: [token, 'tok-expired'],
    failDependencies: () => {},
  }));
const right = ({ bearerToken }: Credentials) =>
  bearerToken === token ? authenticated(alice) : bearerToken === 'tok-expired' ? rejected('expired') : abstained;
authn('authenticates without credentials', 'abstains without credentials, for every path and header', (credentials) =>
  credentials.bearerToken === undefined ? authenticated(alice) : right(credentials),
);
authn('trusts a header', 'abstains without credentials, for every path and header', (credentials) =>
  credentials.headers['x-remote-user'] === undefined ? right(credentials) : authenticated(alice),
);
authn('throws on a malformed token', 'does not authenticate or throw on malformed tokens', (credentials) => {
  if (/[^\w.-]/.test(credentials.bearerToken ?? '')) throw new TypeError('what is this');
  return right(credentials);
});
authn('compares a prefix only', 'does not authenticate a token that differs from a valid one in one place', (credentials) =>
  credentials.bearerToken?.startsWith(token) ? authenticated(alice) : right(credentials),
);
authn('puts the token into its result', 'does not authenticate invalid credentials, and gives a reason without secrets', (credentials) =>
  credentials.bearerToken === 'tok-expired' ? rejected(`token ${credentials.bearerToken} is expired`) : right(credentials),
);
authn('forgets a group', 'authenticates its users with exactly their names and groups', (credentials) =>
  right(credentials).outcome === 'authenticated' ? authenticated({ name: 'alice', groups: [] }) : right(credentials),
);
let last: Credentials = noCredentials();
authn('mixes up concurrent requests', 'returns the same results for concurrent requests', async (credentials) => {
  last = credentials;
  await Promise.resolve();
  return right(last);
});

// authz ------------------------------------------------------------------------------------------------------------------
const dev = user('bob', 'dev');
const authz = (what: string, test: string, authorize: (attributes: Attributes) => Decision) =>
  authzContract(breaks(what, test), () => ({
    authorizer: { authorize },
    allowed: [resourceAttributes(dev, 'get', 'pods')],
    noOpinion: [resourceAttributes(dev, 'delete', 'pods'), resourceAttributes(user('eve'), 'get', 'pods')],
  }));
const yes: Decision = { decision: 'allow', reason: 'a developer' };
const mayRead = ({ kind, verb }: Attributes) => kind === 'resource' && verb === 'get';
authz('matches a group by prefix', 'compares names and groups literally', (attributes) =>
  mayRead(attributes) && attributes.identity.groups.some((group) => group.startsWith('dev')) ? yes : noOpinion,
);
authz('allows every path to everyone', 'does not allow an unknown user anything', (attributes) =>
  attributes.kind === 'path' || (mayRead(attributes) && attributes.identity.groups.includes('dev')) ? yes : noOpinion,
);
authz('allows without a reason', 'allows its cases, with a reason', (attributes) =>
  mayRead(attributes) && attributes.identity.groups.includes('dev') ? { decision: 'allow', reason: '' } : noOpinion,
);
let calls = 0;
authz('allows every second time', 'allows its cases, with a reason', (attributes) =>
  mayRead(attributes) && attributes.identity.groups.includes('dev') && calls++ % 2 === 1 ? yes : noOpinion,
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
      { title: 'good', request: admissionRequest('CREATE', pods, pod()), expected: 'allowed' },
      { title: 'bad', request: admissionRequest('CREATE', pods, pod({ bad: 'yes' })), expected: 'denied' },
    ],
    failDependencies: () => {
      broken = true;
    },
    dispose: async () => {
      broken = false;
    },
  }));
let broken = false;
const denyBad: AdmissionPlugin['validate'] = ({ object }) => (object?.metadata?.labels?.['bad'] === undefined ? allow : deny('it is bad'));
admission('modifies the request', 'does not modify the request', {
  validate: denyBad,
  mutate({ object }) {
    if (object?.metadata !== undefined) (object.metadata as { labels?: unknown }).labels = { seen: 'yes' };
    return object ?? allow;
  },
});
admission('always returns a copy', 'is idempotent: a second pass returns the same object', {
  validate: denyBad,
  mutate: ({ object }) => (object === undefined ? allow : labelled(object)),
});
admission('is not idempotent', 'is idempotent: a second pass returns the same object', {
  validate: denyBad,
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
admission('renames the object', 'does not change the identity of the object or fields of the API server', {
  validate: denyBad,
  mutate: ({ object }) =>
    object === undefined || object.metadata?.name === 'mine'
      ? (object ?? allow)
      : { ...object, metadata: { ...object.metadata, name: 'mine' } },
});
admission('fails open', 'does not admit a denied request when its dependencies fail', {
  validate: (request) => (broken ? allow : denyBad(request)),
});
admission('matches another resource', 'has rules that match every case it decides', {
  matches: [{ resources: ['pods/status'], operations: ['CREATE'] }],
  validate: denyBad,
});
admission('denies without a message', 'decides each case as expected', {
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
      capacity: 100,
      dropped: () => sink.dropped,
      stop: () => sink.stop(),
      storedEvents: async () => {
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
audit(
  'buffers without bound',
  'drops and counts events when its destination blocks, and continues afterwards',
  (take) => new BufferedSink(Number.POSITIVE_INFINITY, take),
);
audit('reverses the order', 'stores every event once, in order', (take) => new BufferedSink(100, (events) => take(events.toReversed())));
audit(
  'stores events twice',
  'stores every event once, in order',
  (take) => new BufferedSink(100, (events) => take([...events, ...events])),
);
audit('drops its buffer at the end', 'stores buffered events when it stops, and does not throw afterwards', (take) => {
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
scheduling('filters by chance', 'filters deterministically', { filter: () => (asked++ % 3 === 0 ? unschedulable('not today') : success) });
scheduling('scores beyond the range', 'scores from 0 to 100', { score: (_state, _pod, node) => node.pods.length * 100 });
scheduling('scores nothing at all', 'scores from 0 to 100', { score: () => Number.NaN });
scheduling('divides by nothing', 'scores from 0 to 100', {
  score: () => 0,
  normalizeScore: (_state, _pod, _nodes, scores) => {
    const max = Math.max(...scores);
    for (const [index, score] of scores.entries()) scores[index] = (score * 100) / max;
  },
});
scheduling('refuses without a reason', 'returns a valid status synchronously', { filter: () => unschedulable() });
scheduling('answers later', 'returns a valid status synchronously', {
  filter: (async () => success) as unknown as NonNullable<SchedulingPlugin['filter']>,
});
scheduling('sleeps through a node that changes', 'requeues a rejected pod when a node update', {
  eventsToRegister: [{ kind: 'Node', actions: ['added'] }],
  filter: (_state, _pod, { node }) => (node.spec?.unschedulable === true ? unschedulable('no') : success),
});
scheduling('skips the change that helps', 'requeues a rejected pod when a node update', {
  eventsToRegister: [{ kind: 'Node', actions: ['added', 'updated'], queueingHint: () => 'skip' }],
  filter: (_state, _pod, { node }) => (node.spec?.unschedulable === true ? unschedulable('no') : success),
});
scheduling('sleeps through a pod that goes', 'requeues a rejected pod when the deletion', {
  eventsToRegister: [{ kind: 'Node', actions: ['added', 'updated'] }],
  filter: (_state, _pod, node) => (node.pods.length > 0 ? unschedulable('taken') : success),
});
scheduling('sleeps through a node that comes', 'requeues a pod rejected on all nodes', {
  eventsToRegister: [
    { kind: 'Node', actions: ['updated'] },
    { kind: 'AssignedPod', actions: ['deleted'] },
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
  expectResult: (api) => {
    const created = api.objects(configMaps, 'd').filter(({ metadata }) => metadata?.name?.startsWith('copy-'));
    expect(created.map(({ data }) => data)).toEqual([{ v: '2' }]);
  },
};
const controller = (
  what: string,
  test: string,
  make: (informer: ReturnType<SharedInformerFactory['forResource']>) => Controller['reconcile'],
) =>
  controllerContract<MemoryApi>(breaks(what, test), {
    open() {
      const clock = new FakeClock();
      return { clock, api: memoryApi({ clock }), informers: (client) => new SharedInformerFactory({ client, clock }) };
    },
    create({ informers }) {
      const maps = informers.forResource(configMaps);
      return {
        name: 'copier',
        watches: [watch(maps, ({ metadata }) => (metadata?.name?.startsWith('copy-') ? [] : [`${metadata?.namespace}/${metadata?.name}`]))],
        reconcile: make(maps),
      };
    },
    scenarios: [copies],
  });
type Data = KubeObject & { readonly data?: Record<string, string> };
controller('creates another object each time', 'reaches the result and then stays idle', (maps) => async (key, { client }) => {
  const found = maps.get(key) as Data | undefined;
  if (found !== undefined) await client.create(configMaps, { metadata: { namespace: 'd', generateName: 'copy-' }, data: found.data ?? {} });
});
controller('always writes', 'reaches the result and then stays idle', (maps) => async (key, { client }) => {
  const found = maps.get(key) as Data | undefined;
  if (found === undefined) return;
  const name = `copy-${splitKey(key).name}`;
  if (maps.get(`d/${name}`)) await client.patch(configMaps, { namespace: 'd', name }, 'merge', { data: found.data });
  else await client.create(configMaps, { metadata: { namespace: 'd', name }, data: found.data ?? {} });
});
const careful =
  (swallow: boolean, remember: boolean) =>
  (maps: ReturnType<SharedInformerFactory['forResource']>): Controller['reconcile'] => {
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
controller('ignores errors', 'reaches the result if a write is faulted: unavailable', careful(true, false));
controller('remembers writes that failed', 'reaches the result if a write is faulted: unavailable', careful(false, true));
controller('depends on its memory', 'writes nothing after a restart at rest', (maps) => {
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
controller('gives up after a conflict', 'reaches the result if a write is faulted: raced', (maps) => async (key, { client }) => {
  const found = maps.get(key) as Data | undefined;
  if (found === undefined) return;
  const name = `copy-${splitKey(key).name}`;
  const present = maps.get(`d/${name}`) as Data | undefined;
  if (present === undefined) await client.create(configMaps, { metadata: { namespace: 'd', name }, data: found.data ?? {} });
  else if (JSON.stringify(present.data) !== JSON.stringify(found.data))
    await client.update(configMaps, { ...present, data: found.data ?? {} }).catch(() => {});
});
controller('trusts a stale cache', 'reaches the result if a write is faulted: unseen', (maps) => async (key, { client }) => {
  const found = maps.get(key) as Data | undefined;
  if (found === undefined) return;
  const [present, ...more] = (maps.list('d') as readonly Data[]).filter(({ metadata }) => metadata?.name?.startsWith('copy-'));
  for (const { metadata } of more) await client.delete(configMaps, { namespace: 'd', name: metadata?.name ?? '' });
  if (present === undefined)
    await client.create(configMaps, { metadata: { namespace: 'd', generateName: 'copy-' }, data: found.data ?? {} });
  else if (JSON.stringify(present.data) !== JSON.stringify(found.data))
    await client.patch(configMaps, { namespace: 'd', name: present.metadata?.name ?? '' }, 'merge', { data: found.data });
});
controller('never becomes idle', 'reaches the result and then stays idle', (maps) => {
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
    const listeners = new Map(
      [...this.ports.values()].flatMap((port) => port.clusterIPs.map((ip): readonly [string, string] => [`${ip} ${port.port}`, port.key])),
    );
    for (const [listener, server] of this.servers)
      if (!listeners.has(listener) || this.reopens()) {
        this.servers.delete(listener);
        server.close();
        await once(server, 'close').catch(() => {});
      }
    for (const listener of listeners.keys()) if (!this.servers.has(listener)) await this.#listen(listener);
  }
  protected reopens(): boolean {
    return false;
  }
  protected choose(endpoints: readonly ProxyEndpoint[]): ProxyEndpoint | undefined {
    return endpoints[this.#next++ % endpoints.length];
  }
  async #listen(listener: string): Promise<void> {
    const [ip = '', port = '0'] = listener.split(' ');
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
    this.servers.set(listener, server);
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
    const instance = make();
    return {
      proxy: instance,
      podAddresses: [1, 2, 3, 4].map((n) => `127.131.7.${n}`),
      serviceAddresses: [1, 2, 3, 4].map((n) => `127.97.8.${n}`),
      unsupported: { udp: 'small', affinity: 'small', nodePort: 'small', external: 'small', sourceRanges: 'small' },
      dispose: () => instance.stop(),
    };
  });
};
proxy('nothing', 'nothing', () => new SmallProxy());
proxy(
  'closes for a moment',
  'rejects no connection while endpoints are exchanged',
  () =>
    new (class extends SmallProxy {
      protected override reopens(): boolean {
        return true;
      }
    })(),
);
proxy(
  'uses one endpoint only',
  'reaches every endpoint of a Service, and no other',
  () =>
    new (class extends SmallProxy {
      protected override choose(endpoints: readonly ProxyEndpoint[]): ProxyEndpoint | undefined {
        return endpoints[0];
      }
    })(),
);
proxy(
  'closes all connections',
  'keeps connections to endpoints that remain',
  () =>
    new (class extends SmallProxy {
      override async apply(changes: ProxyChanges): Promise<void> {
        for (const socket of this.sockets) socket.destroy();
        await super.apply(changes);
      }
    })(),
);
proxy(
  'never removes a Service',
  'stops to serve a removed Service, and serves it again when it returns',
  () =>
    new (class extends SmallProxy {
      override apply(changes: ProxyChanges): Promise<void> {
        return super.apply({ ...changes, removed: [] });
      }
    })(),
);
proxy(
  'ignores replace',
  'replaces the whole state, and drops nothing that is in both states',
  () =>
    new (class extends SmallProxy {
      override apply(changes: ProxyChanges): Promise<void> {
        return super.apply({ ...changes, replace: false });
      }
    })(),
);
proxy(
  'applies changes late',
  'serves the new state when apply has resolved',
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
      unsupported: { forward: 'not this time' },
      dispose: () => server.stop(),
    };
  });
dns(
  'returns NXDOMAIN instead of NODATA',
  'distinguishes NXDOMAIN from NODATA',
  () =>
    new (class extends ReferenceDns {
      protected override answersOf(question: Question, name: string): readonly Answer[] | undefined {
        const answers = super.answersOf(question, name);
        return answers?.length === 0 ? undefined : answers;
      }
    })(),
);
dns(
  'returns NODATA instead of NXDOMAIN',
  'distinguishes NXDOMAIN from NODATA',
  () =>
    new (class extends ReferenceDns {
      protected override answersOf(question: Question, name: string): readonly Answer[] {
        return super.answersOf(question, name) ?? [];
      }
    })(),
);
dns(
  'ignores replace',
  'replaces all records with replace: true',
  () =>
    new (class extends ReferenceDns {
      override apply(changes: Parameters<ReferenceDns['apply']>[0]): Promise<void> {
        return super.apply({ ...changes, replace: false });
      }
    })(),
);
dns(
  'is empty during a change',
  'never returns a part of a change, and answers during one',
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
  'returns every address of a headless Service, of both families',
  () =>
    new (class extends ReferenceDns {
      protected override answersOf(question: Question, name: string): readonly Answer[] | undefined {
        return super.answersOf(question, name)?.slice(0, 1);
      }
    })(),
);
dns(
  'always truncates large answers',
  'returns more addresses than fit into a datagram',
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
        checkHealth: () => ({ healthy: true as const }),
        start: async () => {
          held.timers += 1;
        },
        stop: async () => {
          held.timers = 0;
        },
        waitUntilReady: async () => {},
        ...make(held),
      },
      countResources: () => ({ ...held }),
    };
  });
role('keeps a timer', 'releases everything when it stops', () => ({ stop: async () => {} }));
role('cannot stop without a start', 'stops immediately after start, twice, and without a start', (held) => ({
  stop: async () => {
    if (held.timers === 0) throw new Error('not started');
    held.timers = 0;
  },
}));
role('is unhealthy without a reason', 'reports health before, during and after its run, without side effects', () => ({
  checkHealth: () => ({ healthy: false, reason: '' }),
}));
role('has a health check with side effects', 'reports health before, during and after its run, without side effects', (held) => ({
  checkHealth: () => {
    held.timers += 1;
    return { healthy: true };
  },
}));
role('has an invalid name', 'has a constant name', () => ({ name: 'My Role' }));
role('ignores the signal while it waits for readiness', 'stops waiting for readiness when the signal aborts', () => ({
  waitUntilReady: () => new Promise<void>(() => {}),
}));
