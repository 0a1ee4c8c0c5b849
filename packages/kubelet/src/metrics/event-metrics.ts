import type { Clock } from '@oarlock/primitives/clock';
import { Registry } from 'prom-client';
import { EvictionMetrics } from './eviction-metrics.ts';
import { HttpMetrics } from './http-metrics.ts';
import { ImagePullMetrics } from './image-pull-metrics.ts';
import { PLEGMetrics } from './pleg-metrics.ts';
import { PodMetrics } from './pod-metrics.ts';
import { ResizeMetrics } from './resize-metrics.ts';
import { StorageMetrics } from './storage-metrics.ts';

/** The metrics that the components of a kubelet record when something happens. Each component receives its part. */
export class EventMetrics {
  readonly pleg: PLEGMetrics;
  readonly pods: PodMetrics;
  readonly resizes: ResizeMetrics;
  readonly storage: StorageMetrics;
  readonly imagePulls: ImagePullMetrics;
  readonly evictions: EvictionMetrics;
  readonly http: HttpMetrics;

  constructor(clock: Clock, registry = new Registry()) {
    const registers = [registry];
    this.pleg = new PLEGMetrics(registers);
    this.pods = new PodMetrics(registers);
    this.resizes = new ResizeMetrics(registers);
    this.storage = new StorageMetrics(registers, clock);
    this.imagePulls = new ImagePullMetrics(registers);
    this.evictions = new EvictionMetrics(registers);
    this.http = new HttpMetrics(registers, clock);
  }
}
