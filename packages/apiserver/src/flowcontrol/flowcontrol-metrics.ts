import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { PriorityAndFairness } from './priority-and-fairness.ts';

/** Bounds of upstream's histogram, in seconds. */
const waits = [0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30];
const perFlow = ['priority_level', 'flow_schema'] as const;

/** The series of upstream that tell how busy which level is. They are read when they are asked for: requests pay nothing for them. */
export function registerFlowControlMetrics(registry: Registry, fairness: PriorityAndFairness): void {
  const waited = new Histogram({
    name: 'apiserver_flowcontrol_request_wait_duration_seconds',
    help: 'Seconds that requests waited in a queue, those that were given up among them.',
    labelNames: [...perFlow, 'execute'],
    buckets: waits,
    registers: [registry],
  });
  fairness.onQueueWait = ({ level, schema }, executed, seconds) => {
    waited.observe({ priority_level: level.name, flow_schema: schema, execute: String(executed) }, seconds);
  };
  const flowGauge = (
    name: string,
    help: string,
    read: (counts: typeof fairness.counts extends Iterable<infer T> ? T : never) => number,
  ) => {
    registry.registerMetric(
      new Gauge({
        name: `apiserver_flowcontrol_${name}`,
        help,
        labelNames: perFlow,
        registers: [],
        collect() {
          this.reset();
          for (const counts of fairness.counts) this.set({ priority_level: counts.level.name, flow_schema: counts.schema }, read(counts));
        },
      }),
    );
  };
  flowGauge(
    'current_executing_requests',
    'Requests that are worked on, those that were let in at once among them.',
    ({ executing }) => executing,
  );
  flowGauge('current_inqueue_requests', 'Requests that wait for a place.', ({ queued }) => queued);
  const levelGauge = (
    name: string,
    help: string,
    read: (level: typeof fairness.levels extends Iterable<infer T> ? T : never) => number,
  ) => {
    registry.registerMetric(
      new Gauge({
        name: `apiserver_flowcontrol_${name}`,
        help,
        labelNames: ['priority_level'],
        registers: [],
        collect() {
          this.reset();
          for (const level of fairness.levels) if (!level.exempt) this.set({ priority_level: level.name }, read(level));
        },
      }),
    );
  };
  levelGauge('nominal_limit_seats', 'Seats that a level has by its shares.', ({ nominalLimit: nominal }) => nominal);
  levelGauge('current_limit_seats', 'Seats that a level has now, after lending and borrowing.', ({ currentLimit: limit }) => limit);
  levelGauge('current_executing_seats', 'Seats in use.', ({ seatsInUse: inUse }) => inUse);
  registry.registerMetric(
    new Counter({
      name: 'apiserver_flowcontrol_dispatched_requests_total',
      help: 'Requests that were let in.',
      labelNames: perFlow,
      registers: [],
      collect() {
        this.reset();
        for (const { level, schema, dispatched } of fairness.counts)
          this.inc({ priority_level: level.name, flow_schema: schema }, dispatched);
      },
    }),
  );
  registry.registerMetric(
    new Counter({
      name: 'apiserver_flowcontrol_rejected_requests_total',
      help: 'Requests that were turned away, and why.',
      labelNames: [...perFlow, 'reason'],
      registers: [],
      collect() {
        this.reset();
        for (const { level, schema, rejected } of fairness.counts)
          for (const [reason, count] of rejected) this.inc({ priority_level: level.name, flow_schema: schema, reason }, count);
      },
    }),
  );
}
