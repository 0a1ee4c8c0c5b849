import { leaderElectionOf } from '@oarlock/component-server/leader-election';
import { expect, it } from 'vitest';

const defaults = { namespace: 'tools', name: 'controller-a' };
const times = { 'leader-elect-lease-duration': '15s', 'leader-elect-renew-deadline': '10s', 'leader-elect-retry-period': '2s' };

it('uses the Lease of the defaults, or the one that the flags name', () => {
  const times15 = { leaseDurationMs: 15_000, renewDeadlineMs: 10_000, retryPeriodMs: 2000 };
  expect(leaderElectionOf(times, defaults)).toEqual({ lease: defaults, ...times15 });
  const named = { 'leader-elect-resource-name': 'b', 'leader-elect-resource-namespace': 'c' };
  expect(leaderElectionOf({ ...times, ...named }, defaults)?.lease).toEqual({ namespace: 'c', name: 'b' });
});

it('can be turned off', () => {
  expect(leaderElectionOf({ ...times, 'leader-elect': 'false' }, defaults)).toBeUndefined();
});

it.each([
  [{ 'leader-elect': 'no' }, '--leader-elect: must be true or false, not "no"'],
  [{ 'leader-elect-lease-duration': 'soon' }, '--leader-elect-lease-duration: time: invalid duration "soon"'],
  [{ 'leader-elect-retry-period': '0s' }, '--leader-elect-retry-period: must be greater than zero, not "0s"'],
])('rejects %j', (flags, message) => {
  expect(() => leaderElectionOf({ ...times, ...flags }, defaults)).toThrow(message);
});
