import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import type { LocalNodes } from '@oarlock/spi/local-nodes';
import type { Health, Role } from '@oarlock/spi/role';
import { Kubelet } from './kubelet.ts';
import type { KubeletNeeds } from './kubelet-context.ts';
import { registerKubeletMetrics } from './kubelet-metrics.ts';
import { RuntimeOperations } from './measured-runtime.ts';
import { KubeletServer } from './server/kubelet-server.ts';
import { registerClaimMetrics } from './volumes/claim-metrics.ts';

/** The role `kubelet`: the kubelet of this process and its server, with one lifecycle. */
export class KubeletRole implements Role, Lifecycle {
  readonly name = 'kubelet';
  readonly kubelet: Kubelet;
  readonly #server: KubeletServer;
  readonly #local: LocalNodes | undefined;
  #withdraw: () => void = () => undefined;

  constructor(needs: KubeletNeeds, context: PluginContext) {
    const operations = new RuntimeOperations(context.metrics, context.clock);
    const runtimes = new Map([...needs.runtimes].map(([name, driver]) => [name, operations.measured(driver)]));
    this.kubelet = new Kubelet({ ...needs, runtimes }, context);
    const { address } = this.kubelet;
    const { config } = needs;
    this.#local = needs.local;
    const loopback = address === '::1' || address.startsWith('127.');
    this.#server = new KubeletServer({
      kubelet: this.kubelet,
      log: context.log,
      signal: context.signal,
      listen: { host: config.serverAddress ?? (loopback ? address : '0.0.0.0'), port: config.port },
      metrics: () => context.metrics.metrics(),
    });
    registerKubeletMetrics(this.kubelet, context.metrics);
    registerClaimMetrics(this.kubelet, context.metrics);
  }

  async start(): Promise<void> {
    const port = await this.#server.start();
    const { agents, address } = this.kubelet;
    const door = { host: address, port, connect: () => this.#server.connect() };
    this.#withdraw = this.#local?.offer(agents.keys(), door) ?? this.#withdraw;
    await this.kubelet.start(port);
  }

  async stop(): Promise<void> {
    this.#withdraw();
    await this.#server.stop();
    await this.kubelet.stop();
  }

  health(): Health {
    return this.kubelet.health();
  }

  async ready(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<never>((_, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
    await Promise.race([this.kubelet.ready(), aborted]);
  }
}
