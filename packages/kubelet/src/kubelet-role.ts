import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { Health, Role } from '@oarlock/spi/role';
import { Kubelet } from './kubelet/kubelet.ts';
import type { KubeletDependencies } from './kubelet/kubelet-context.ts';
import { registerKubeletMetrics } from './kubelet/kubelet-metrics.ts';
import { RuntimeOperationMetrics } from './runtime/instrumented-runtime.ts';
import { KubeletServer } from './server/kubelet-server.ts';
import { registerVolumeClaimMetrics } from './server/stats/volume-claim-metrics.ts';

/** The role `kubelet`, which runs the kubelet of this process and its HTTPS server. */
export class KubeletRole implements Role, Lifecycle {
  readonly name = 'kubelet';
  readonly kubelet: Kubelet;
  readonly #server: KubeletServer;
  readonly #local: LocalNodes | undefined;
  #deregister: () => void = () => undefined;

  constructor(needs: KubeletDependencies, context: PluginContext) {
    const operations = new RuntimeOperationMetrics(context.metrics, context.clock);
    const runtimes = new Map([...needs.runtimes].map(([name, driver]) => [name, operations.instrument(driver)]));
    this.kubelet = new Kubelet({ ...needs, runtimes }, context);
    const { address } = this.kubelet;
    const { config, process: { certificateMetrics, clientMetrics } = {} } = needs;
    this.#local = needs.local;
    const loopback = address === '::1' || address.startsWith('127.');
    this.#server = new KubeletServer({
      kubelet: this.kubelet,
      log: context.log,
      signal: context.signal,
      listen: { host: config.serverAddress ?? (loopback ? address : '0.0.0.0'), port: config.port },
      metrics: async () =>
        (await Promise.all([context.metrics, certificateMetrics, clientMetrics].map((each) => each?.metrics() ?? ''))).join('\n'),
    });
    registerKubeletMetrics(this.kubelet, context.metrics);
    registerVolumeClaimMetrics(this.kubelet, context.metrics);
  }

  async start(): Promise<void> {
    const port = await this.#server.start();
    const { agents, address } = this.kubelet;
    const endpoint = { host: address, port, connect: () => this.#server.connect() };
    this.#deregister = this.#local?.register(agents.keys(), endpoint) ?? this.#deregister;
    await this.kubelet.start(port);
  }

  async stop(): Promise<void> {
    this.#deregister();
    await this.#server.stop();
    await this.kubelet.stop();
  }

  checkHealth(): Health {
    return this.kubelet.health();
  }

  async waitUntilReady(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
    await Promise.race([this.kubelet.ready(), aborted]);
  }
}
