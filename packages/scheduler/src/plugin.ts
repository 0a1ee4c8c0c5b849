import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { LeaderElector } from '@oarlock/client/leader-election';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Roles } from '@oarlock/spi/role';
import { Scheduling } from '@oarlock/spi/scheduling';
import { z } from 'zod';
import { Framework } from './framework.ts';
import { Scheduler } from './scheduler.ts';
import { SchedulerMetrics } from './scheduler-metrics.ts';

const config = z.strictObject({
  schedulerName: z.string().min(1).default('default-scheduler'),
  /** How many of the nodes are looked at before the best of those that fit is taken; default: 50 % shrinking to 5 % with size. */
  percentageOfNodesToScore: z.number().int().min(1).max(100).optional(),
  parallelBinds: z.number().int().min(1).max(10_000).default(200),
  podInitialBackoffSeconds: z.number().positive().default(1),
  podMaxBackoffSeconds: z.number().positive().default(10),
  /** Plugins that are not to run, by name such as ImageLocality. */
  disable: z.array(z.string()).default([]),
  /** Weights of scores by plugin name. */
  weights: z.record(z.string(), z.number().min(0).max(100)).default({}),
  leaderElect: z.boolean().default(false),
  leaseName: z.string().min(1).max(253).default('oarlock-scheduler'),
});

export default Roles.plugin({
  id: 'scheduler',
  config,
  needs: { client: Client, informers: Informers, events: Events, chain: Scheduling },
  create({ config: settings, client, informers, events, chain }, { clock, log, tracer, metrics }) {
    for (const name of settings.disable)
      if (!chain.some((plugin) => plugin.name === name)) throw new Error(`there is no scheduling plugin ${name} to disable`);
    const framework = new Framework(
      chain.filter(({ name }) => !settings.disable.includes(name)),
      settings.weights,
    );
    const scheduler: Scheduler = new Scheduler({
      client,
      informers,
      framework,
      clock,
      log,
      tracer,
      recorder: events.recorder(settings.schedulerName),
      random: Math.random,
      schedulerName: settings.schedulerName,
      metrics: new SchedulerMetrics(metrics, settings.schedulerName, () => scheduler.depth),
      ...(settings.percentageOfNodesToScore !== undefined && { percentageOfNodesToScore: settings.percentageOfNodesToScore }),
      parallelBinds: settings.parallelBinds,
      initialBackoffMs: settings.podInitialBackoffSeconds * 1000,
      maxBackoffMs: settings.podMaxBackoffSeconds * 1000,
    });
    const stopping = new AbortController();
    let work: Promise<void> | undefined;
    let fault: string | undefined;
    const elector = settings.leaderElect
      ? new LeaderElector({
          client,
          clock,
          random: Math.random,
          log,
          lease: { namespace: 'kube-system', name: settings.leaseName },
          identity: `${hostname()}_${randomUUID()}`,
          onStarted: (signal) => scheduler.run(signal),
        })
      : undefined;
    return {
      name: 'scheduler',
      health: () => (fault === undefined ? { healthy: true } : { healthy: false, because: fault }),
      async start() {
        work = (elector === undefined ? scheduler.run(stopping.signal) : elector.run(stopping.signal)).catch((error: unknown) => {
          fault = error instanceof Error ? error.message : String(error);
          log.error({ err: error }, 'the scheduler has ended');
        });
      },
      async stop() {
        stopping.abort();
        await work;
      },
    };
  },
});
