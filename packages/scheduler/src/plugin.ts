import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { leaderElectionMetrics } from '@oarlock/client/leader-election/leader-election-metrics';
import { LeaderElector } from '@oarlock/client/leader-election/leader-elector';
import { LeaseCandidacy } from '@oarlock/client/leader-election/lease-candidacy';
import { optional } from '@oarlock/kernel/slot';
import { Client, Events, Informers } from '@oarlock/spi/client';
import { Cluster } from '@oarlock/spi/cluster';
import { Roles } from '@oarlock/spi/role';
import { Scheduling } from '@oarlock/spi/scheduling';
import { errorText } from '@oarlock/primitives/error-text';
import { configuration, ignoredKeys, type Configuration } from './config/configuration.ts';
import { explainerSymbol, type ExplainingRole } from './explain/explainer.ts';
import { Extender } from './extender/extender.ts';
import { makeProfiles } from './config/profiles.ts';
import { Scheduler } from './scheduler.ts';
import { SchedulerMetrics } from './metrics/scheduler-metrics.ts';

/** Returns the leader election settings, or undefined if leader election is off. */
function electionOf({ leaderElection, leaderElect, leaseName }: Configuration) {
  if (leaderElection === undefined) return leaderElect ? { lease: { namespace: 'kube-system', name: leaseName } } : undefined;
  if (!leaderElection.leaderElect) return undefined;
  return {
    lease: { namespace: leaderElection.resourceNamespace, name: leaderElection.resourceName ?? leaseName },
    leaseDurationMs: leaderElection.leaseDuration,
    renewDeadlineMs: leaderElection.renewDeadline,
    retryPeriodMs: leaderElection.retryPeriod,
  };
}

export default Roles.plugin({
  id: 'scheduler',
  config: configuration,
  needs: { client: Client, informers: Informers, events: Events, chain: Scheduling, facts: optional(Cluster) },
  create({ config, client, informers, events, chain, facts }, { clock, log, tracer, metrics }) {
    for (const { key, reason } of ignoredKeys(config)) log.warn({ key, reason }, 'a key of the scheduler configuration has no effect');
    const profiles = makeProfiles(config, chain);
    const extenders = config.extenders.map((each) => new Extender(each));
    const schedulerMetrics = new SchedulerMetrics({ registry: metrics, clock, pendingPods: () => scheduler?.pendingPods });
    const election = electionOf(config);
    let scheduler: Scheduler | undefined;
    // each term of leadership gets a new scheduler: the caches of the previous term may be outdated
    const run = (signal: AbortSignal): Promise<void> => {
      scheduler = new Scheduler({
        client,
        informers,
        refreshCachesFirst: election !== undefined,
        profiles,
        extenders,
        clock,
        log,
        tracer,
        events,
        random: Math.random,
        metrics: schedulerMetrics,
        parallelBinds: config.parallelBinds,
        initialBackoffMs: config.podInitialBackoffSeconds * 1000,
        maxBackoffMs: config.podMaxBackoffSeconds * 1000,
      });
      return scheduler.run(signal);
    };
    const stopping = new AbortController();
    let work: Promise<unknown> | undefined;
    let failure: string | undefined;
    const { coordinated } = config;
    // a LeaseCandidate has the identity as its name, and object names must not contain underscores
    const identity = coordinated ? `${hostname().toLowerCase()}-${randomUUID()}` : `${hostname()}_${randomUUID()}`;
    const dependencies = { client, clock, log };
    const recorder = events.recorder(profiles[0]?.schedulerName ?? 'default-scheduler');
    const elector =
      election &&
      new LeaderElector({
        ...dependencies,
        events: recorder,
        random: Math.random,
        ...election,
        identity,
        coordinated,
        metrics: leaderElectionMetrics(metrics, election.lease.name),
        onStartedLeading: run,
      });
    const candidacy =
      election && coordinated
        ? LeaseCandidacy.ofProgram(facts?.version ?? '', {
            ...dependencies,
            informers,
            emulates: facts?.emulationVersion,
            namespace: election.lease.namespace,
            name: identity,
            leaseName: election.lease.name,
          })
        : undefined;
    const role: ExplainingRole = {
      name: 'scheduler',
      [explainerSymbol]: () => (scheduler?.isRunning ? scheduler : undefined),
      checkHealth: () => (failure === undefined ? { healthy: true } : { healthy: false, reason: failure }),
    };
    return Object.assign(role, {
      async start() {
        const { signal } = stopping;
        work = Promise.all([elector === undefined ? run(signal) : elector.run(signal), candidacy?.run(signal)]).catch((error: unknown) => {
          failure = errorText(error);
          log.error({ err: error }, 'the scheduler has failed');
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
