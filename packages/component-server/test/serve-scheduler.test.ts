import { schedulerConfig } from '@oarlock/component-server/serve-scheduler';
import { configuration } from '@oarlock/scheduler/config/configuration';
import { expect, it } from 'vitest';

it('configures one profile with the name, and the leader election of the flags', () => {
  const times = { leaseDurationMs: 4000, renewDeadlineMs: 3000, retryPeriodMs: 500 };
  const election = { lease: { namespace: 'tools', name: 'spread' }, ...times };
  expect(configuration.parse(schedulerConfig('spread', election))).toMatchObject({
    profiles: [{ schedulerName: 'spread' }],
    leaderElection: {
      leaderElect: true,
      leaseDuration: 4000,
      renewDeadline: 3000,
      retryPeriod: 500,
      resourceName: 'spread',
      resourceNamespace: 'tools',
    },
  });
  expect(configuration.parse(schedulerConfig('spread', undefined)).leaderElection?.leaderElect).toBe(false);
});
