import { Counter, Histogram, type Registry } from 'prom-client';

export type ReconcileResultLabel = 'success' | 'requeue_after' | 'conflict' | 'error';
export interface ReconcileMetrics {
  observe(result: ReconcileResultLabel, ms: number): void;
}

const names = { total: 'oarlock_reconcile_total', time: 'oarlock_reconcile_duration_seconds' } as const;

/** Returns the reconcile counter and histogram of one controller. Creates the metrics once per registry. */
export function reconcileMetrics(registry: Registry, controller: string): ReconcileMetrics {
  const registers = [registry];
  const total =
    (registry.getSingleMetric(names.total) as Counter | undefined) ??
    new Counter({ name: names.total, help: 'Reconciles by controller and result', labelNames: ['controller', 'result'], registers });
  const time =
    (registry.getSingleMetric(names.time) as Histogram | undefined) ??
    new Histogram({
      name: names.time,
      help: 'How long reconciles take',
      labelNames: ['controller'],
      buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60],
      registers,
    });
  return {
    observe(result, ms) {
      total.inc({ controller, result });
      time.observe({ controller }, ms / 1000);
    },
  };
}
