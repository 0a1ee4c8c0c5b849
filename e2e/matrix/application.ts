import type { PodItem } from '../harness/api.ts';
import type { Cluster } from '../harness/cluster.ts';
import { containersOf, remains, type ContainerPlaces, type Containers } from '../harness/containers.ts';
import { hello, runsImages } from '../harness/hello.ts';
import { untilAnswers } from '../harness/http.ts';
import { until, untilValue } from '../harness/until.ts';
import type { Combination } from './combinations.ts';

/** The identity and start time of a container: equal values mean that it was not restarted. */
export interface Identity {
  readonly uid: string;
  readonly containerID: string;
  readonly startedAt: string;
  readonly restarts: number;
  readonly podIP: string;
}

/** One combination under test: the cluster, and the application in its own namespace. */
export class MatrixApplication {
  readonly namespace = 'journey';
  readonly combination: Combination;
  readonly cluster: Cluster;
  readonly bridge: string | undefined;
  readonly #places: ContainerPlaces;

  constructor(
    combination: Combination,
    cluster: Cluster,
    { bridge, ...runtimes }: Omit<ContainerPlaces, 'dir'> & { readonly bridge?: string | undefined },
  ) {
    this.combination = combination;
    this.cluster = cluster;
    this.bridge = bridge;
    this.#places = { dir: cluster.dir, ...runtimes };
  }

  get simulated(): boolean {
    return this.combination.runtime === 'simulated';
  }
  get images(): boolean {
    return runsImages(this.combination.runtime);
  }
  k(...args: string[]): Promise<string> {
    return this.cluster.kubectl.run(['-n', this.namespace, ...args]);
  }

  async deploy(): Promise<readonly PodItem[]> {
    await this.cluster.kubectl.run(['create', 'namespace', this.namespace]);
    await this.cluster.kubectl.apply(await hello(this.combination.runtime), { namespace: this.namespace });
    await this.rolledOut();
    return this.ready(3);
  }
  rolledOut(): Promise<string> {
    return this.k('rollout', 'status', 'deployment/hello', '--timeout=180s');
  }
  ready(count: number): Promise<readonly PodItem[]> {
    return this.cluster.api.untilReady(this.namespace, 'hello', count);
  }
  async pods(): Promise<readonly PodItem[]> {
    return (await this.cluster.api.get<{ items: PodItem[] }>(this.cluster.api.pods(this.namespace, 'hello'))).items;
  }

  /** `http://<cluster IP>:8080` */
  async service(): Promise<string> {
    return `http://${await this.k('get', 'service', 'hello', '-o', 'jsonpath={.spec.clusterIP}')}:8080`;
  }

  /** Waits until exactly these pods respond at the Service. */
  async serves(pods: readonly PodItem[]): Promise<void> {
    if (this.simulated) {
      await this.endpoints(pods);
      return;
    }
    const wanted = pods.map(({ metadata }) => `hello from ${metadata.name}`);
    const url = await this.service();
    // a terminating pod may respond once more
    await until('exactly these pods of the Service respond', async () => {
      const seen = await untilAnswers(url, wanted);
      return seen.size === wanted.length;
    });
  }

  /** Waits until the EndpointSlices contain exactly these pods. */
  async endpoints(pods: readonly PodItem[]): Promise<void> {
    const wanted = pods
      .map(({ status }) => status.podIP ?? '')
      .sort()
      .join();
    interface Slice {
      readonly metadata: PodItem['metadata'];
      readonly endpoints?: readonly { readonly addresses: readonly string[]; readonly conditions?: { readonly ready?: boolean } }[];
    }
    await this.cluster.api.until<Slice>(
      `endpoints of ${wanted}`,
      `/apis/discovery.k8s.io/v1/namespaces/${this.namespace}/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dhello`,
      (slices) =>
        slices
          .flatMap(({ endpoints }) => (endpoints ?? []).filter(({ conditions }) => conditions?.ready).flatMap(({ addresses }) => addresses))
          .sort()
          .join() === wanted,
    );
  }

  /** Sends GETs from inside a pod, all in one command, and returns the bodies. */
  async fetchIn(pod: PodItem, urls: readonly string[]): Promise<readonly string[]> {
    const command = this.images
      ? ['sh', '-c', 'for url in "$@"; do wget -q -O - "$url" || exit 1; done', 'fetch', ...urls]
      : [
          'node',
          '-e',
          'for (const url of process.argv.slice(1)) { await new Promise((done, failed) => require("node:http").get(url, { agent: false }, (r) => { r.on("data", (d) => process.stdout.write(d)).on("end", done); }).on("error", failed)); }'
            .replace(/^/, '(async () => { ')
            .concat(' })()'),
          ...urls,
        ];
    const output = await this.k('exec', pod.metadata.name, '--', ...command);
    return output.trim().split('\n');
  }

  /** Returns whether a server responds to the pod at that address within a while. */
  async reaches(pod: PodItem, url: string): Promise<boolean> {
    const command = this.images
      ? ['timeout', '5', 'wget', '-q', '-O', '-', url]
      : [
          'node',
          '-e',
          'fetch(process.argv[1], { signal: AbortSignal.timeout(5000) }).then(() => process.exit(0), () => process.exit(1))',
          url,
        ];
    return (await this.cluster.kubectl.try(['-n', this.namespace, 'exec', pod.metadata.name, '--', ...command])).code === 0;
  }

  /** The pods of the application. */
  async image(): Promise<string> {
    return (await this.k('get', 'deployment', 'hello', '-o', 'jsonpath={.spec.template.spec.containers[0].image}')).trim();
  }

  containers(): Promise<Containers> {
    return containersOf(this.combination.runtime, this.#places);
  }

  async identities(): Promise<readonly Identity[]> {
    return (await this.pods()).map(identity).sort((a, b) => (a.uid < b.uid ? -1 : 1));
  }

  /** Waits until the runtime and the network hold no resources of pods. */
  async nothingRemains(): Promise<void> {
    if (this.simulated) return;
    await untilValue(
      'nothing of the pods is left',
      () => remains(this.combination.runtime, { ...this.#places, bridge: this.bridge }),
      (left) => left.length === 0,
      { everyMs: 200 },
    );
  }
}

function identity({ metadata, status }: PodItem): Identity {
  const container = status.containerStatuses?.[0];
  return {
    uid: metadata.uid ?? '',
    containerID: container?.containerID ?? '',
    startedAt: container?.state?.running?.startedAt ?? '',
    restarts: container?.restartCount ?? -1,
    podIP: status.podIP ?? '',
  };
}
