import { Counter, Gauge, type Registry } from 'prom-client';
import type { HealthCheckResult } from './health-endpoints.ts';

/** The names of the service level indicators, which /metrics/slis serves on their own (KEP-3466). */
export const sliMetrics: ReadonlySet<string> = new Set(['kubernetes_healthcheck', 'kubernetes_healthchecks_total']);

/** Registers the metrics of health checks, and returns a function that records a result. */
export function healthCheckObserver(registry: Registry): (result: HealthCheckResult) => void {
  const registers = [registry];
  const last = new Gauge({
    name: 'kubernetes_healthcheck',
    help: '1 if a health check passed when it last ran, otherwise 0.',
    labelNames: ['name', 'type'],
    registers,
  });
  const total = new Counter({
    name: 'kubernetes_healthchecks_total',
    help: 'Results of health checks.',
    labelNames: ['name', 'status', 'type'],
    registers,
  });
  return ({ endpoint: type, name, healthy }) => {
    last.set({ name, type }, healthy ? 1 : 0);
    total.inc({ name, type, status: healthy ? 'success' : 'error' });
  };
}
