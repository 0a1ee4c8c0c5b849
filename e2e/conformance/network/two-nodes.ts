import { beforeAll } from 'vitest';
import { busyboxImage } from '../../fixtures/test-image.ts';
import type { Item, PodItem } from '../../harness/api.ts';
import type { Cluster } from '../../harness/cluster.ts';
import { Machine } from '../../harness/machine.ts';
import { until, untilValue } from '../../harness/until.ts';
import type { NodeStageName } from '../node-environments.ts';
import { nodeNames, startTwoNodes } from '../real-nodes.ts';

export type Body = Readonly<Record<string, unknown>>;

const ports = [{ name: 'http', containerPort: 8080 }];
/** A server that returns its name over HTTP. */
const server = 'mkdir /tmp/w; hostname > /tmp/w/hostname; exec httpd -f -p 8080 -h /tmp/w';

/** Two nodes, the second behind its own link, with pods that reach each other over VXLAN. */
export class TwoNodes {
  readonly machine = Machine.use();
  readonly namespace = 'network';
  readonly nodes = nodeNames;
  /** By node. */
  readonly addresses = new Map<string, string>();
  #cluster: Cluster | undefined;

  static use(stage: NodeStageName): TwoNodes {
    const two = new TwoNodes();
    beforeAll(() => two.#start(stage));
    return two;
  }

  get cluster(): Cluster {
    if (!this.#cluster) throw new Error('the cluster has not been started');
    return this.#cluster;
  }
  get api() {
    return this.cluster.api;
  }

  async #start(stage: NodeStageName): Promise<void> {
    const { cluster, addresses } = await startTwoNodes(this.machine, stage);
    this.#cluster = cluster;
    for (const [name, address] of addresses) this.addresses.set(name, address);
    await this.create('/api/v1/namespaces', { metadata: { name: this.namespace } });
    await until(
      'the namespace has its service account',
      async () => (await this.api.call('GET', `${this.at('serviceaccounts')}/default`)).status === 200,
    );
    await Promise.all(
      this.nodes.flatMap((node) => [this.server(`server-${node}`, node), this.server(`client-${node}`, node, { app: 'client' })]),
    );
  }

  at(resource: string, namespace = this.namespace): string {
    const slash = resource.lastIndexOf('/');
    return `${slash < 0 ? '/api/v1' : `/apis/${resource.slice(0, slash)}`}/namespaces/${namespace}/${resource.slice(slash + 1)}`;
  }
  /** Creates an object; deletes one that an earlier attempt left. */
  create<T extends Item = Item>(path: string, body: Body & { readonly metadata: Body & { readonly name: string } }): Promise<T> {
    return this.api.renew<T>(path, body);
  }
  merge<T = Item>(path: string, body: Body): Promise<T> {
    return this.api.json<T>('PATCH', path, { body, headers: { 'content-type': 'application/merge-patch+json' } });
  }
  async remove(path: string): Promise<void> {
    await this.api.json('DELETE', path, {});
  }

  /** Creates a pod that returns its name, and waits until it is ready. */
  async server(name: string, node: string, labels: Body = { app: 'server' }, more: Body = {}): Promise<PodItem> {
    await this.create(this.at('pods'), {
      metadata: { name, labels },
      spec: {
        nodeName: node,
        terminationGracePeriodSeconds: 0,
        containers: [
          {
            name: 'main',
            image: busyboxImage,
            imagePullPolicy: 'IfNotPresent',
            command: ['sh', '-c', server],
            ports,
            readinessProbe: { httpGet: { path: '/hostname', port: 8080 }, periodSeconds: 1 },
          },
        ],
        ...more,
      },
    });
    return this.readyPod(name);
  }
  async readyPod(name: string): Promise<PodItem> {
    const [pod] = await this.api.until<PodItem & { status: { conditions?: readonly { type: string; status: string }[] } }>(
      `${name} is ready`,
      `${this.at('pods')}?fieldSelector=metadata.name%3D${name}`,
      (pods) => pods[0]?.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true,
    );
    if (!pod) throw new Error(`pod ${name} does not exist`);
    return pod;
  }

  service(
    name: string,
    spec: Body = {},
    metadata: Body = {},
  ): Promise<Item & { readonly spec: Readonly<Record<string, never>> & ServiceSpec }> {
    return this.create(this.at('services'), {
      metadata: { name, ...metadata },
      spec: { selector: { app: 'server' }, ports: [{ name: 'http', port: 80, targetPort: 8080 }], ...spec },
    });
  }

  /** Runs a script in a pod: by default a client pod on a node. */
  run(script: string, pod = 'client-node-a'): Promise<string> {
    return this.cluster.kubectl.run(['-n', this.namespace, 'exec', pod, '--', 'sh', '-c', script]).then((output) => output.trim());
  }
  /** Repeats a script in a pod until its output matches: names and rules take effect a moment after they are written. */
  untilOutput(script: string, wanted: (output: string) => boolean, pod?: string): Promise<string> {
    return untilValue(script, () => this.run(`{ ${script}; } 2>&1 || true`, pod), wanted);
  }
  /** Returns the names of the servers that respond to so many requests; empty lines for requests without a response. */
  async ask(
    address: string,
    { times = 1, pod = 'client-node-a', port = 80 }: { times?: number; pod?: string; port?: number } = {},
  ): Promise<readonly string[]> {
    const host = address.includes(':') ? `[${address}]` : address;
    const output = await this.run(
      `for i in $(seq ${times}); do timeout 10 wget -q -O - http://${host}:${port}/hostname 2>/dev/null || echo; done`,
      pod,
    );
    return output.split('\n');
  }
  /** Waits until exactly these servers respond. */
  async answers(
    address: string,
    wanted: readonly string[],
    options: { readonly pod?: string; readonly port?: number } = {},
  ): Promise<void> {
    await untilValue(
      `${wanted.join(', ') || 'nobody'} at ${address}`,
      async () => [...new Set(await this.ask(address, { times: wanted.length > 1 ? 16 : 1, ...options }))].sort().join(),
      (seen) => seen === [...wanted].sort().join(),
    );
  }
}

interface ServiceSpec {
  readonly clusterIP: string;
  readonly ports: readonly { readonly nodePort: number }[];
}
