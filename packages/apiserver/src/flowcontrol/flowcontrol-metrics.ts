import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { FlowCounters, PriorityAndFairness } from './priority-and-fairness.ts';
import type { PriorityLevel } from './priority-level.ts';

/** The buckets of upstream's histogram of waiting times, in seconds. */
const waitBuckets = [0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30];
const perFlow = ['priority_level', 'flow_schema'] as const;
const prefix = 'apiserver_flowcontrol_';

const labelsOf = ({ level, schema }: FlowCounters) => ({ priority_level: level.name, flow_schema: schema });

/**
 * Registers upstream's metrics of API Priority and Fairness. All metrics except waiting times are read from the priority levels at each
 * scrape.
 */
export function registerFlowControlMetrics(registry: Registry, fairness: PriorityAndFairness): void {
  registerWaitDuration(registry, fairness);
  registerFlowGauges(registry, fairness);
  registerLevelGauges(registry, fairness);
  registerRequestCounters(registry, fairness);
}

function registerWaitDuration(registry: Registry, fairness: PriorityAndFairness): void {
  const waitDuration = new Histogram({
    name: `${prefix}request_wait_duration_seconds`,
    help: 'Length of time a request spent waiting in its queue.',
    labelNames: [...perFlow, 'execute'],
    buckets: waitBuckets,
    registers: [registry],
  });
  fairness.onQueueWait = (counters, executed, seconds) => {
    waitDuration.observe({ ...labelsOf(counters), execute: String(executed) }, seconds);
  };
}

function registerFlowGauges(registry: Registry, fairness: PriorityAndFairness): void {
  const gauge = (name: string, help: string, read: (counters: FlowCounters) => number) => {
    registry.registerMetric(
      new Gauge({
        name: `${prefix}${name}`,
        help,
        labelNames: perFlow,
        registers: [],
        collect() {
          this.reset();
          for (const counters of fairness.counts) this.set(labelsOf(counters), read(counters));
        },
      }),
    );
  };
  gauge('current_executing_requests', 'Number of requests in execution.', ({ executing }) => executing);
  gauge('current_inqueue_requests', 'Number of requests in the queues.', ({ queued }) => queued);
}

function registerLevelGauges(registry: Registry, fairness: PriorityAndFairness): void {
  const gauge = (name: string, help: string, read: (level: PriorityLevel) => number) => {
    registry.registerMetric(
      new Gauge({
        name: `${prefix}${name}`,
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
  gauge('nominal_limit_seats', 'Nominal number of execution seats of a priority level.', ({ nominalLimit }) => nominalLimit);
  gauge('current_limit_seats', 'Number of execution seats after lending and borrowing.', ({ currentLimit }) => currentLimit);
  gauge('current_executing_seats', 'Number of execution seats in use.', ({ seatsInUse }) => seatsInUse);
}

function registerRequestCounters(registry: Registry, fairness: PriorityAndFairness): void {
  registry.registerMetric(
    new Counter({
      name: `${prefix}dispatched_requests_total`,
      help: 'Number of requests executed.',
      labelNames: perFlow,
      registers: [],
      collect() {
        this.reset();
        for (const counters of fairness.counts) this.inc(labelsOf(counters), counters.dispatched);
      },
    }),
  );
  registry.registerMetric(
    new Counter({
      name: `${prefix}rejected_requests_total`,
      help: 'Number of requests rejected, by reason.',
      labelNames: [...perFlow, 'reason'],
      registers: [],
      collect() {
        this.reset();
        for (const counters of fairness.counts)
          for (const [reason, count] of counters.rejected) this.inc({ ...labelsOf(counters), reason }, count);
      },
    }),
  );
}
