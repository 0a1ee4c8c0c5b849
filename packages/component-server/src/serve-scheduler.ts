import type { Plugin } from '@oarlock/kernel/plugin';
import scheduler from '@oarlock/scheduler/plugin';
import { builtin } from '@oarlock/scheduler/plugins/registry';
import type { LeaderElection } from './leader-election.ts';
import { serveComponent } from './serve-component.ts';

const duration = (ms: number) => `${ms}ms`;

/** Returns the KubeSchedulerConfiguration of a scheduler with one profile. */
export const schedulerConfig = (schedulerName: string, election: LeaderElection | undefined) => ({
  profiles: [{ schedulerName }],
  leaderElection: {
    leaderElect: election !== undefined,
    ...(election && {
      leaseDuration: duration(election.leaseDurationMs),
      renewDeadline: duration(election.renewDeadlineMs),
      retryPeriod: duration(election.retryPeriodMs),
      resourceName: election.lease.name,
      resourceNamespace: election.lease.namespace,
    }),
  },
});

/** Runs an exported scheduling plugin, with the in-tree plugins, as a scheduler of its own name, as `serveComponent` does. */
export function serve(plugin: Plugin, args?: readonly string[]): Promise<void> {
  return serveComponent(
    plugin,
    ({ election, schedulerName }) => ({ builtin, role: { plugin: scheduler, config: schedulerConfig(schedulerName, election) } }),
    args,
  );
}
