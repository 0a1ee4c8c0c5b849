import { formatTime } from '@oarlock/api/values/time';
import { TriggerTimes } from '@oarlock/service-proxy/trigger-times';
import { expect, it } from 'vitest';

const slice = (name: string, at?: number) => ({
  metadata: { name, ...(at !== undefined && { annotations: { 'endpoints.kubernetes.io/last-change-trigger-time': formatTime(at) } }) },
  addressType: 'IPv4',
  endpoints: [],
});

it('returns the times of changes since the start once, by Service', () => {
  const times = new TriggerTimes(10_000);
  times.add('d/a', slice('a-1', 9_000)); // before the start
  times.add('d/a', slice('a-1'));
  times.add('d/a', slice('a-1', 11_000));
  times.add('d/a', slice('a-1', 11_000)); // another update with the same change
  times.add('d/a', slice('a-2', 12_000));
  times.add('d/b', slice('b-1', 13_000));
  expect(times.take(['d/a', 'd/c'])).toEqual([11_000, 12_000]);
  expect(times.take(['d/a', 'd/b'])).toEqual([13_000]);
});

it('keeps a bounded number of changes while the rules cannot be applied', () => {
  const times = new TriggerTimes(0);
  for (let second = 1; second <= 1_000; second += 1) times.add('d/a', slice('a-1', second * 1_000));
  expect(times.take(['d/a'])).toHaveLength(100);
});
