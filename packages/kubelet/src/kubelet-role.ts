import type { Lifecycle, PluginContext } from '@oarlock/kernel/plugin';
import type { Health, Role } from '@oarlock/spi/role';
import { Counter, Gauge } from 'prom-client';
import { Kubelet } from './kubelet.ts';
import type { KubeletNeeds } from './kubelet-context.ts';
import { KubeletServer } from './server/kubelet-server.ts';

/** The role `kubelet`: the kubelet of this process and its server, with one lifecycle. */
export class KubeletRole implements Role, Lifecycle {
  readonly name = 'kubelet';
  readonly kubelet: Kubelet;
  readonly #server: KubeletServer;

  constructor(needs: KubeletNeeds, context: PluginContext) {
    this.kubelet = new Kubelet(needs, context);
    const { address } = this.kubelet;
    const { config } = needs;
    const loopback = address === '::1' || address.startsWith('127.');
    this.#server = new KubeletServer({
      kubelet: this.kubelet,
      log: context.log,
      signal: context.signal,
      listen: { host: config.serverAddress ?? (loopback ? address : '0.0.0.0'), port: config.port },
      metrics: () => context.metrics.metrics(),
    });
    this.#measure(context);
  }

  async start(): Promise<void> {
    await this.kubelet.start(await this.#server.start());
  }

  async stop(): Promise<void> {
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

  #measure({ metrics }: PluginContext): void {
    const { kubelet } = this;
    new Gauge({
      name: 'kubelet_running_pods',
      help: 'Pods that this process looks after.',
      registers: [metrics],
      collect() {
        this.set([...kubelet.agents.values()].reduce((sum, agent) => sum + agent.pods.size, 0));
      },
    });
    let seen = 0;
    new Counter({
      name: 'kubelet_pod_status_patches_total',
      help: 'Pod statuses sent to the API server.',
      registers: [metrics],
      collect() {
        const { patches } = kubelet.context.statuses;
        this.inc(patches - seen);
        seen = patches;
      },
    });
  }
}
