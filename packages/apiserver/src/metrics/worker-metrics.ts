import type { Workers } from '@oarlock/spi/workers';
import { Gauge, type Registry } from 'prom-client';

/** Registers the number of processes that serve the API together. The first of them reports it. */
export function registerWorkerMetrics(registry: Registry, workers: Workers): void {
  if (workers.isWorker) return;
  new Gauge({
    name: 'oarlock_apiserver_processes',
    help: 'Processes that serve the API on the port of this server.',
    registers: [registry],
    collect() {
      this.set(1 + workers.workers().filter(({ health }) => health.healthy).length);
    },
  });
}
