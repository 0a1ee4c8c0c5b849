import type { ConfigMap, Node, Pod } from '@oarlock/api/types/core-v1';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import type { Lifecycle } from '@oarlock/kernel/plugin';
import type { Informer } from '@oarlock/spi/client';
import type { ClusterKeys, KeyPair } from '@oarlock/spi/cluster';
import { watch, type Controller, type ReconcileContext, type ReconcileResult } from '@oarlock/spi/controller';
import { KubeletClient, kubeletAddress, addressText } from './kubelet-client.ts';
import { MetricsApi } from './metrics-api.ts';
import { MetricsServer } from './metrics-server.ts';
import { ensure, namespace, apiServiceObjects, service } from './api-service-objects.ts';
import { UsageStore, type Usage } from './usage-store.ts';

/** The server of the metrics API. */
export type MetricsEndpoint = Pick<MetricsServer, 'isListening' | 'frontProxy' | 'listen' | 'setFrontProxy' | 'setKeyPair' | 'close'>;

export interface MetricsControllerOptions {
  readonly nodes: Informer<Node>;
  readonly pods: Informer<Pod>;
  readonly authentication: Informer<ConfigMap>;
  readonly keys: ClusterKeys;
  readonly host: string;
  readonly port: number;
  readonly resolutionMs: number;
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly log: Logger;
}

/** The workqueue key of the API registration. All other keys are addresses of kubelets. */
const api = 'api';
const nodesByAddress = 'nodes-of-kubelet';
const byNode = 'pods-of-node';
const republishIntervalMs = 300_000;
const configMapKey = `${namespace}/extension-apiserver-authentication`;
const nodeAddresses = (node: Node): readonly string[] => {
  const place = kubeletAddress(node);
  return place === undefined ? [] : [addressText(place)];
};

/**
 * Scrapes kubelets once per resolution period. The workqueue key of a kubelet is its address and port, because one process may be the kubelet of
 * several nodes.
 */
export class MetricsController implements Controller, Lifecycle {
  readonly name = 'metrics-server';
  readonly concurrentReconciles = 20;
  readonly watches;
  readonly #parts: MetricsControllerOptions;
  readonly #usages = new UsageStore();
  readonly #kubelets: KubeletClient;
  readonly #listener: MetricsEndpoint;
  /** The time of each kubelet's last scrape on the monotonic clock, keyed by the kubelet's address. */
  readonly #lastScrapes = new Map<string, number>();
  #port = 0;

  /** @param listener replaces the HTTPS server in tests */
  constructor(parts: MetricsControllerOptions, listener?: MetricsEndpoint) {
    this.#parts = parts;
    const { nodes, pods, authentication, keys, clock, log, timeoutMs } = parts;
    nodes.addIndexer(nodesByAddress, nodeAddresses);
    pods.addIndexer(byNode, ({ spec }) => (spec?.nodeName ? [spec.nodeName] : []));
    this.#kubelets = new KubeletClient({ keys, clock, log, timeoutMs });
    const usages = {
      ofNode: (node: Node) => this.#ofNode(node),
      ofPod: ({ metadata }: Pod) => this.#usages.pod(`${metadata?.namespace}/${metadata?.name}`),
    };
    this.#listener = listener ?? new MetricsServer(new MetricsApi({ nodes, pods, usages, now: () => clock.now() }), log);
    this.watches = [
      watch(authentication, () => [api]),
      watch(nodes, (node, old) => {
        const now = nodeAddresses(node);
        if (old === undefined) return now;
        const before = nodeAddresses(old);
        return now[0] === before[0] ? [] : [...before, ...now];
      }),
      watch(pods, () => []),
    ];
  }

  /** Starts the server. The server rejects requests until the front proxy certificate of the API server is known. */
  async start(): Promise<void> {
    const { keys, host, port, log } = this.#parts;
    if (keys.trustOnly === true) {
      log.warn({}, 'the metrics API is not served: this process does not have the key of the cluster CA');
      return;
    }
    this.#port = await this.#listener.listen(await this.#issue(), host, port);
  }

  /** Returns the serving certificate, another one before it expires. */
  #issue(): Promise<KeyPair> {
    return this.#parts.keys.issue({
      commonName: service,
      dnsNames: [`${service}.${namespace}.svc`, `${service}.${namespace}`, 'localhost'],
      usages: ['server'],
    });
  }

  async stop(): Promise<void> {
    this.#kubelets.close();
    await this.#listener.close();
  }

  async reconcile(key: string, { client, signal, log }: ReconcileContext): Promise<ReconcileResult | void> {
    if (!this.#listener.isListening) return undefined;
    const { nodes, host, keys, resolutionMs, clock } = this.#parts;
    if (key === api) {
      const front = frontProxyOf(this.#parts.authentication.get(configMapKey));
      if (front === undefined) return undefined;
      if (front.ca !== this.#listener.frontProxy?.ca || front.names.join() !== this.#listener.frontProxy.names.join())
        this.#listener.setFrontProxy(front);
      this.#listener.setKeyPair(await this.#issue());
      for (const { resource, object } of apiServiceObjects(host, this.#port, keys.caBundle)) await ensure(client, resource, object);
      return { requeueAfterMs: republishIntervalMs };
    }
    const [node] = nodes.byIndex(nodesByAddress, key);
    const place = node && kubeletAddress(node);
    if (place === undefined) {
      this.#usages.forget(key);
      this.#lastScrapes.delete(key);
      return undefined;
    }
    // a kubelet of many nodes is not scraped once per node
    const rest = (this.#lastScrapes.get(key) ?? -Infinity) + resolutionMs / 2 - clock.monotonic();
    if (rest > 0) return { requeueAfterMs: rest };
    this.#lastScrapes.set(key, clock.monotonic());
    try {
      this.#usages.put(key, await this.#kubelets.scrape(place, signal));
    } catch (error) {
      if (signal.aborted) throw error;
      log.debug({ err: error, kubelet: key }, 'could not scrape a kubelet');
    }
    return { requeueAfterMs: resolutionMs };
  }

  /** Returns the usage of one node; undefined if it is not known. If the kubelet serves several nodes, the usage is the sum of the node's pods. */
  #ofNode(node: Node): Usage | undefined {
    const { nodes, pods, resolutionMs, clock } = this.#parts;
    const [place = ''] = nodeAddresses(node);
    if (nodes.byIndex(nodesByAddress, place).length < 2) return this.#usages.node(place);
    let [cores, memoryBytes, at] = [0, 0, clock.now()];
    for (const { metadata } of pods.byIndex(byNode, node.metadata?.name ?? '')) {
      for (const usage of this.#usages.pod(`${metadata?.namespace}/${metadata?.name}`)?.values() ?? []) {
        cores += usage.cores;
        memoryBytes += usage.memoryBytes;
        at = Math.min(at, usage.at);
      }
    }
    return { cores, memoryBytes, at, windowMs: resolutionMs };
  }
}

function frontProxyOf(map: ConfigMap | undefined): { readonly ca: string; readonly names: readonly string[] } | undefined {
  const ca = map?.data?.['requestheader-client-ca-file'];
  if (ca === undefined) return undefined;
  const names: unknown = JSON.parse(map?.data?.['requestheader-allowed-names'] ?? '[]');
  return { ca, names: Array.isArray(names) ? names.map(String) : [] };
}
