import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { LeaderElector } from '@oarlock/client/leader-election';
import { LeaseCandidacy } from '@oarlock/client/lease-candidacy';
import { optional } from '@oarlock/kernel/slot';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Roles } from '@oarlock/spi/role';
import { Scheduling } from '@oarlock/spi/scheduling';
import { configuration, withoutEffect, type Configuration } from './configuration.ts';
import { explaining, type ExplainingRole } from './explain.ts';
import { Extender } from './extender.ts';
import { makeProfiles } from './profiles.ts';
import { Scheduler } from './scheduler.ts';
import { SchedulerMetrics } from './scheduler-metrics.ts';

/** How the leader is elected; undefined when this is the only scheduler. */
function electionOf({ leaderElection: own, leaderElect, leaseName }: Configuration) {
  if (own === undefined) return leaderElect ? { lease: { namespace: 'kube-system', name: leaseName } } : undefined;
  if (!own.leaderElect) return undefined;
  return {
    lease: { namespace: own.resourceNamespace, name: own.resourceName ?? leaseName },
    leaseDurationMs: own.leaseDuration,
    renewDeadlineMs: own.renewDeadline,
    retryPeriodMs: own.retryPeriod,
  };
}

export default Roles.plugin({
  id: 'scheduler',
  config: configuration,
  needs: { client: Client, informers: Informers, events: Events, chain: Scheduling, facts: optional(Cluster) },
  create({ config, client, informers, events, chain, facts }, { clock, log, tracer, metrics }) {
    for (const { key, because } of withoutEffect(config))
      log.warn({ key, because }, 'a key of the scheduler’s configuration has no effect');
    const profiles = makeProfiles(config, chain);
    const extenders = config.extenders.map((each) => new Extender(each));
    const series = new SchedulerMetrics(metrics, () => scheduler?.depth);
    const election = electionOf(config);
    let scheduler: Scheduler | undefined;
    // a new one for each term of office: the caches of the last one may have missed what others did meanwhile
    const run = (signal: AbortSignal): Promise<void> => {
      scheduler = new Scheduler({
        client,
        informers,
        succeeds: election !== undefined,
        profiles,
        extenders,
        clock,
        log,
        tracer,
        events,
        random: Math.random,
        metrics: series,
        parallelBinds: config.parallelBinds,
        initialBackoffMs: config.podInitialBackoffSeconds * 1000,
        maxBackoffMs: config.podMaxBackoffSeconds * 1000,
      });
      return scheduler.run(signal);
    };
    const stopping = new AbortController();
    let work: Promise<unknown> | undefined;
    let fault: string | undefined;
    const { coordinated } = config;
    // a candidate is named like it, and names of objects have no underscore
    const identity = coordinated ? `${hostname().toLowerCase()}-${randomUUID()}` : `${hostname()}_${randomUUID()}`;
    const parts = { client, clock, log };
    const told = { events: events.recorder(profiles[0]?.schedulerName ?? 'default-scheduler') };
    const elector =
      election && new LeaderElector({ ...parts, ...told, random: Math.random, ...election, identity, coordinated, onStarted: run });
    const candidacy =
      election && coordinated
        ? LeaseCandidacy.ofProgram(facts?.version ?? '', {
            ...parts,
            informers,
            namespace: election.lease.namespace,
            name: identity,
            leaseName: election.lease.name,
          })
        : undefined;
    const role: ExplainingRole = {
      name: 'scheduler',
      [explaining]: () => (scheduler?.running ? scheduler : undefined),
      health: () => (fault === undefined ? { healthy: true } : { healthy: false, because: fault }),
    };
    return Object.assign(role, {
      async start() {
        const { signal } = stopping;
        work = Promise.all([elector === undefined ? run(signal) : elector.run(signal), candidacy?.run(signal)]).catch((error: unknown) => {
          fault = error instanceof Error ? error.message : String(error);
          log.error({ err: error }, 'the scheduler has ended');
        });
      },
      async stop() {
        stopping.abort();
        await work;
        for (const extender of extenders) extender.close();
      },
    });
  },
});
