import { parseQuantity } from '@oarlock/api/values/quantity';
import type { ResourceRequirements } from '@oarlock/api/types/core-v1';
import { Counter, Histogram, type Registry } from 'prom-client';

const resources = ['cpu', 'memory'] as const;
const requirements = ['requests', 'limits'] as const;
/** 15 buckets from 10 ms, each twice the previous one. Milliseconds. */
const buckets = Array.from({ length: 15 }, (_, step) => 10 * 2 ** step);

/** The metrics of in-place resizes of pods (KEP-1287). */
export class ResizeMetrics {
  readonly #requested: Counter<'resource' | 'requirement' | 'operation'>;
  readonly #duration: Histogram<'success'>;

  constructor(registers: Registry[]) {
    this.#requested = new Counter({
      name: 'kubelet_container_requested_resizes_total',
      help: 'Number of requested resizes, counted at the container level. Different resources on the same container are counted separately.',
      registers,
      labelNames: ['resource', 'requirement', 'operation'],
    });
    this.#duration = new Histogram({
      name: 'kubelet_pod_resize_duration_milliseconds',
      help: 'Duration in milliseconds to actuate a pod resize',
      registers,
      buckets,
      labelNames: ['success'],
    });
  }

  /** Counts each request and limit of CPU and memory that differs between the former and the new resources of a container. */
  requested(before: ResourceRequirements = {}, now: ResourceRequirements = {}): void {
    for (const resource of resources)
      for (const requirement of requirements) {
        const operation = operationOf(before[requirement]?.[resource], now[requirement]?.[resource]);
        if (operation !== undefined) this.#requested.inc({ resource, requirement, operation });
      }
  }

  /** Observes an attempt to apply allocated resources to a pod. */
  actuated(milliseconds: number, success: boolean): void {
    this.#duration.observe({ success: String(success) }, milliseconds);
  }
}

function operationOf(before: string | number | undefined, now: string | number | undefined): string | undefined {
  if (before === undefined) return now === undefined ? undefined : 'add';
  if (now === undefined) return 'remove';
  const order = parseQuantity(now).compare(parseQuantity(before));
  return order === 0 ? undefined : order > 0 ? 'increase' : 'decrease';
}
