import { silentLogger, type Logger } from '@oarlock/primitives/logger';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import type { EtcdConnection } from '../../src/client/etcd-connection.ts';
import { MemberHealth } from '../../src/client/member-health.ts';

const mebibyte = 1024 * 1024;

/** Returns the health of a member that returns one of these responses each minute. */
function healthOf(
  answers: readonly { readonly dbSize: number; readonly dbSizeInUse: number; readonly errors?: readonly string[] }[],
  quotaBytes?: number,
) {
  const clock = new FakeClock();
  const logged: string[] = [];
  const note = (level: string) => (_: object, text: string) => void logged.push(`${level}: ${text.split(/[.:]/)[0] ?? ''}`);
  const log = { ...silentLogger, error: note('error'), info: note('info'), warn: note('warn') } as Logger;
  const left = [...answers];
  const connection = {
    call: async () => {
      const answer = left.shift();
      if (answer === undefined) throw new Error('nobody there');
      return { errors: [], ...answer };
    },
  } as unknown as Pick<EtcdConnection, 'call'>;
  return { health: new MemberHealth({ connection, clock, log, quotaBytes }), clock, said: logged };
}

describe('member health', () => {
  it('recommends defragmenting once, if it would free much space', async () => {
    const {
      health,
      clock,
      said: logged,
    } = healthOf([
      { dbSize: 100 * mebibyte, dbSizeInUse: mebibyte },
      { dbSize: 2000 * mebibyte, dbSizeInUse: 1500 * mebibyte },
      { dbSize: 2000 * mebibyte, dbSizeInUse: 900 * mebibyte },
      { dbSize: 2000 * mebibyte, dbSizeInUse: 800 * mebibyte },
      { dbSize: 800 * mebibyte, dbSizeInUse: 800 * mebibyte },
    ]);
    health.start();
    const seen: boolean[] = [];
    for (let minute = 0; minute < 5; minute += 1) {
      await clock.settle();
      seen.push(health.state.defragment);
      await clock.advance(60_000);
    }
    expect(seen).toEqual([false, false, true, true, false]);
    expect(logged).toEqual(['warn: more than half of the etcd database is free']);
    health.stop();
    expect(clock.pending).toBe(0);
  });

  it('logs alarms when they start and end, and keeps the last state while the member is unavailable', async () => {
    const size = { dbSize: 10, dbSizeInUse: 10 };
    const { health, said: logged } = healthOf([
      size,
      { ...size, errors: ['memberID:1 alarm:NOSPACE '] },
      { ...size, errors: ['memberID:1 alarm:NOSPACE '] },
      size,
    ]);
    for (let at = 0; at < 5; at += 1) await health.check();
    expect(logged).toEqual(['error: etcd has alarms and rejects writes', 'info: etcd has no alarms any more']);
    expect(health.state).toMatchObject({ bytes: 10, alarms: [] });
  });

  it('is checked each minute, each five seconds during an alarm, and at once when a write is rejected', async () => {
    const size = { dbSize: 10, dbSizeInUse: 10 };
    const { health, clock } = healthOf([size, { ...size, errors: ['memberID:1 alarm:NOSPACE '] }, size, { ...size, dbSize: 20 }]);
    health.start();
    await clock.settle();
    health.recheck();
    health.recheck(); // a check is in progress
    await clock.settle();
    expect(health.state.alarms).toHaveLength(1);
    await clock.advance(5_000);
    expect(health.state.alarms).toEqual([]);
    await clock.advance(59_000);
    expect(health.state.bytes).toBe(10);
    await clock.advance(1_000);
    expect(health.state.bytes).toBe(20);
    health.stop();
    health.recheck();
    expect(clock.pending).toBe(0);
  });

  it('recommends defragmenting a database that is small, but large for its quota', async () => {
    const { health } = healthOf([{ dbSize: 8 * mebibyte, dbSizeInUse: 4 * mebibyte }], 16 * mebibyte);
    await health.check();
    expect(health.state.defragment).toBe(true);
  });

  it('reports the conditions of a full space quota, and their ends', async () => {
    const alarm = { dbSize: 17 * mebibyte, dbSizeInUse: 15 * mebibyte, errors: ['memberID:1 alarm:NOSPACE '] };
    const corrupt = { dbSize: mebibyte, dbSizeInUse: mebibyte, errors: ['memberID:2 alarm:CORRUPT '] };
    const { health } = healthOf([{ dbSize: 13 * mebibyte, dbSizeInUse: 5 * mebibyte }, alarm, corrupt, alarm], 16 * mebibyte);
    const reported: string[][] = [];
    const unsubscribe = health.watchConditions((conditions) => {
      reported.push(conditions.map(({ reason, rejectsCommits }) => `${reason} ${rejectsCommits}`));
    });
    for (let at = 0; at < 3; at += 1) await health.check();
    expect(reported).toEqual([[], ['EtcdSpaceLow false'], ['EtcdNoSpace true', 'EtcdSpaceLow false'], ['EtcdCorrupt true']]);
    unsubscribe();
    await health.check();
    expect(reported).toHaveLength(4);
  });
});
