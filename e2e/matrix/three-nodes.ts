import type { PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import type { SwitchedNode } from '../harness/switched-nodes.ts';
import { until, untilValue } from '../harness/until.ts';

/** Transports between nodes, by network plugin. `reflected`: BGP through a route reflector instead of a full mesh. */
export const waysOf = { bridge: ['direct', 'vxlan'], calico: ['direct', 'vxlan', 'bgp', 'reflected'] } as const;
export type RackNetwork = keyof typeof waysOf;
export type Way = (typeof waysOf)[RackNetwork][number];

export const nodeNames = ['node-a', 'node-b', 'node-c'] as const;
export const reflectorLabel = 'rack.example/reflects=yes';
const range = '10.233';
const device = { bridge: 'oarlock-vx', calico: 'oarlock-cvx' } as const;

/** The components of a node. */
export function nodeSpec(network: RackNetwork, way: Way): object {
  const routes = way === 'reflected' ? 'bgp' : way;
  const calico = {
    // three addresses per block, so that a node has several blocks
    pools: [{ cidr: `${range}.0.0/24`, blockSize: 30 }],
    ...(way === 'reflected' && { bgp: { mesh: false, reflectors: reflectorLabel } }),
  };
  return {
    // pods outlive the restarts that change the transport
    runtimes: [{ use: 'runtime-process', config: { keepPods: true } }],
    network: { use: `network-${network}`, config: { routes, confDir: null, ...(network === 'calico' && calico) } },
    policy: 'policy-nftables',
    volumes: ['volume-csi'],
    proxy: 'proxy-nftables',
    settings: { kubelet: { port: 0, evictionHard: { diskAvailable: '1%', imageAvailable: '1%' } } },
  };
}
export const clusterRange = `${range}.0.0/16`;

/** The form of a route to pods of other nodes. */
export const routeShape = (network: RackNetwork, way: Way): RegExp =>
  ({
    direct: / via 10\.215\.\S+ dev up0 proto 77/,
    vxlan: new RegExp(` dev ${device[network]} .*onlink`),
    bgp: / via 10\.215\.\S+ dev up0 proto bird/,
    reflected: / via 10\.215\.\S+ dev up0 proto bird/,
  })[way];

/**
 * A server that returns its name; at `/from` the client's address, at `/large` many packets, at `/data` its volume's content, and at `/ask?PLACE,PLACE`
 * the response of each place, or `none`.
 */
const server = `
const http = require('node:http');
const fs = require('node:fs');
const data = '/data/starts';
if (process.env.KEEPS) fs.appendFileSync(data, process.env.POD + '\\n');
const ask = (place) => new Promise((done) => {
  const request = http.get('http://' + place, { agent: false, timeout: 4000 }, (answer) => {
    let text = '';
    answer.on('data', (chunk) => (text += chunk)).on('end', () => done(text.length > 1000 ? String(text.length) : text)).on('error', () => done('none'));
  });
  request.on('timeout', () => request.destroy(new Error('none'))).on('error', () => done('none'));
});
const said = {
  '/': () => process.env.POD,
  '/from': ({ socket }) => socket.remoteAddress,
  '/large': () => 'x'.repeat(200000),
  '/data': () => fs.readFileSync(data),
};
http.createServer(async (request, answer) => {
  const [path, places = ''] = request.url.split('?');
  if (path === '/ask') answer.end((await Promise.all(places.split(',').map(ask))).join('\\n'));
  else answer.end(said[path](request));
}).listen(8080, process.env.POD_IP);`;
const largeSize = '200000';

const container = (more: object = {}, env: readonly object[] = []) => ({
  name: 'main',
  image: 'host',
  command: ['node', '-e', server],
  env: [
    { name: 'POD', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
    { name: 'POD_IP', valueFrom: { fieldRef: { fieldPath: 'status.podIP' } } },
    ...env,
  ],
  readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 },
  ...more,
});
const spread = (app: string) => ({
  terminationGracePeriodSeconds: 1,
  topologySpreadConstraints: [
    {
      maxSkew: 1,
      topologyKey: 'kubernetes.io/hostname',
      whenUnsatisfiable: 'DoNotSchedule',
      labelSelector: { matchLabels: { app } },
    },
  ],
});
const labelled = (app: string) => ({ selector: { matchLabels: { app } }, replicas: 0 });

/** Two pods on each node and a Service for them. */
export const farObjects: readonly object[] = [
  {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'far', labels: { app: 'far' } },
    spec: {
      ...labelled('far'),
      replicas: 2 * nodeNames.length,
      template: { metadata: { labels: { app: 'far' } }, spec: { ...spread('far'), containers: [container()] } },
    },
  },
  { apiVersion: 'v1', kind: 'Service', metadata: { name: 'far' }, spec: { selector: { app: 'far' }, ports: [{ port: 8080 }] } },
];

/** A pod with its own claim on each node. */
export const keptObject = {
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name: 'kept', labels: { app: 'kept' } },
  spec: {
    ...labelled('kept'),
    replicas: nodeNames.length,
    serviceName: 'kept',
    podManagementPolicy: 'Parallel',
    template: {
      metadata: { labels: { app: 'kept' } },
      spec: {
        ...spread('kept'),
        containers: [container({ volumeMounts: [{ name: 'data', mountPath: '/data' }] }, [{ name: 'KEEPS', value: 'yes' }])],
      },
    },
    volumeClaimTemplates: [
      { metadata: { name: 'data' }, spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '8Mi' } } } },
    ],
  },
};

/** The pods of a rack, called from their own nodes: policies never block traffic from a node to its pods. */
export class RackPods {
  readonly cluster: Cluster;
  readonly nodes: readonly SwitchedNode[];
  pods: readonly PodItem[] = [];

  constructor(cluster: Cluster, nodes: readonly SwitchedNode[]) {
    this.cluster = cluster;
    this.nodes = nodes;
  }

  async refresh(): Promise<void> {
    this.pods = await this.cluster.api.untilReady('default', 'far', 2 * nodeNames.length);
  }
  get everyone(): string {
    return this.#names().join('\n');
  }
  /** All pods, except the one that returns nothing. */
  without(silent: PodItem): string {
    return this.#names(silent).join('\n');
  }
  #names(silent?: PodItem): readonly string[] {
    return this.pods.map((pod) => (pod === silent ? 'none' : pod.metadata.name));
  }

  /** Returns the response of a pod's server. */
  async get(pod: PodItem, path: string): Promise<string> {
    const node = this.nodes.find(({ name }) => name === pod.spec.nodeName);
    if (!node) throw new Error(`${pod.metadata.name} is on ${pod.spec.nodeName}`);
    return (await node.run('curl', '-sS', '--max-time', '20', `http://${pod.status.podIP}:8080${path}`)).trim();
  }
  #ask(pod: PodItem, places: readonly string[]): Promise<string> {
    return this.get(pod, `/ask?${places.join(',')}`);
  }

  async #all(what: string, path: string, wanted: (pod: PodItem) => string, from = this.pods): Promise<void> {
    const places = this.pods.map(({ status }) => `${status.podIP}:8080${path}`);
    await Promise.all(
      from.map((pod) =>
        untilValue(
          `what ${pod.metadata.name} on ${pod.spec.nodeName} hears of ${what}`,
          () => this.#ask(pod, places),
          (output) => output === wanted(pod),
        ),
      ),
    );
  }
  /** Waits until each of `from` gets the expected response from all pods. */
  hear(wanted = this.everyone, from = this.pods): Promise<void> {
    return this.#all('names', '/', () => wanted, from);
  }
  /** Asserts that large responses arrive, and that servers see the clients' own addresses. */
  async hearMuch(): Promise<void> {
    await this.#all('much', '/large', () => this.pods.map(() => largeSize).join('\n'), this.#oneOnEach());
    await this.#all('its own address', '/from', ({ status }) => this.pods.map(() => status.podIP).join('\n'), this.#oneOnEach());
  }
  /** Creates a pod and returns its MTU. */
  async mtuOfNew(): Promise<number> {
    const before = this.pods.map(({ metadata }) => metadata.name);
    await this.cluster.kubectl.run(['delete', 'pod', '--wait=false', before[0] ?? '']);
    const fresh = await until('another pod replaces it', async () => {
      await this.refresh();
      return this.pods.find(({ metadata }) => !before.includes(metadata.name));
    });
    const text = await this.cluster.kubectl.run(['exec', fresh.metadata.name, '--', 'ip', '-o', 'link', 'show', 'eth0']);
    return Number(/ mtu (\d+) /.exec(text)?.[1]);
  }
  /** Returns the client address that a server outside of the cluster sees, by node. */
  async seenFrom(place: string): Promise<readonly string[]> {
    return Promise.all(this.#oneOnEach().map((pod) => this.#ask(pod, [place])));
  }
  /** Asserts that one pod on each node reaches all pods of the Service. */
  async hearService(): Promise<void> {
    const address = (await this.cluster.kubectl.run(['get', 'service', 'far', '-o', 'jsonpath={.spec.clusterIP}'])).trim();
    const wanted = new Set(this.pods.map(({ metadata }) => metadata.name));
    await Promise.all(
      this.#oneOnEach().map((pod) =>
        until(`all pods respond to ${pod.metadata.name} at the Service`, async () => {
          const responses = new Set((await this.#ask(pod, Array<string>(40).fill(`${address}:8080/`))).split('\n'));
          return responses.size === wanted.size && [...wanted].every((name) => responses.has(name));
        }),
      ),
    );
  }
  #oneOnEach(pods = this.pods): readonly PodItem[] {
    return this.nodes.flatMap(({ name }) => pods.find(({ spec }) => spec.nodeName === name) ?? []);
  }

  /** Asserts that a policy makes a pod unreachable from every node, and that its deletion makes it reachable again. */
  async holdToPolicy(): Promise<void> {
    const [first, ...rest] = this.pods;
    if (!first) throw new Error('there is no pod');
    await this.cluster.kubectl.run(['label', '--overwrite', 'pod', first.metadata.name, 'closed=yes']);
    await this.cluster.kubectl.apply({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'closed' },
      spec: { podSelector: { matchLabels: { closed: 'yes' } }, policyTypes: ['Ingress'] },
    });
    await this.hear(this.without(first), this.#oneOnEach(rest));
    await this.cluster.kubectl.run(['delete', 'networkpolicy', 'closed']);
    await this.hear(this.everyone, this.#oneOnEach(rest));
    // the next policy is for another pod
    await this.cluster.kubectl.run(['label', 'pod', first.metadata.name, 'closed-']);
  }
}
