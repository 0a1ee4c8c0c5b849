import type { StorageCondition } from '@oarlock/spi/storage';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { beforeEach, describe, expect, it } from 'vitest';
import type { ClusterEvent } from '../../src/servers/cluster-events.ts';
import { StorageConditionEvents } from '../../src/servers/storage-condition-events.ts';

const spaceLow: StorageCondition = { reason: 'EtcdSpaceLow', message: 'nearly full', rejectsCommits: false };
const noSpace: StorageCondition = { reason: 'EtcdNoSpace', message: 'full', rejectsCommits: true };
const since = '2026-01-01T00:00:00.000Z';
let clock: FakeClock;
let recorded: string[];
let report: (conditions: readonly StorageCondition[]) => void;
let events: StorageConditionEvents;
beforeEach(() => {
  clock = new FakeClock({ start: Date.parse(since) });
  recorded = [];
  report = () => {
    throw new Error('nothing watches the conditions');
  };
  const storage = {
    watchConditions(listener: (conditions: readonly StorageCondition[]) => void) {
      report = listener;
      return () => void (report = () => undefined);
    },
  };
  const record = ({ type, reason, message }: ClusterEvent) => void recorded.push(`${type} ${reason}: ${message}`);
  events = new StorageConditionEvents({ storage, events: { record }, clock });
  events.start();
});

describe('Events about conditions of the storage', () => {
  it('are written at the start and the end of a condition, and each hour between', async () => {
    for (const conditions of [[], [spaceLow], [spaceLow]]) report(conditions);
    const warning = 'Warning EtcdSpaceLow: nearly full';
    expect(recorded).toEqual([warning]);
    await clock.advance(3_600_000);
    report([spaceLow]);
    report([]);
    report([]);
    const end = `Normal EtcdSpaceLowResolved: the condition EtcdSpaceLow, which was noticed at ${since}, has ended`;
    expect(recorded).toEqual([warning, warning, end]);
  });

  it('are written at the end of a condition in which the storage rejects commits', async () => {
    report([noSpace]);
    await clock.advance(7_200_000);
    report([noSpace]);
    expect(recorded).toEqual([]);
    report([]);
    expect(recorded).toEqual([
      `Warning EtcdNoSpace: since ${since}: full`,
      `Normal EtcdNoSpaceResolved: the condition EtcdNoSpace, which was noticed at ${since}, has ended`,
    ]);
  });

  it('are not written after the end of the process', () => {
    events.stop();
    report([spaceLow]);
    expect(recorded).toEqual([]);
  });
});
