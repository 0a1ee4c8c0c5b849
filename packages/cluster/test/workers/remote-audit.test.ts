import type { AuditEvent } from '@oarlock/spi/audit';
import { FakeClock } from '@oarlock/testing/fake-clock';
import { describe, expect, it } from 'vitest';
import { auditCalls, RemoteAuditSink } from '../../src/workers/remote-audit.ts';

const event = (auditID: string): AuditEvent => ({
  kind: 'Event',
  apiVersion: 'audit.k8s.io/v1',
  level: 'Metadata',
  auditID,
  stage: 'ResponseComplete',
  requestURI: '/',
  verb: 'get',
  user: {},
  requestReceivedTimestamp: '',
  stageTimestamp: '',
});

describe('RemoteAuditSink', () => {
  it('sends the events in order to every sink, those of 50 ms together', async () => {
    const clock = new FakeClock();
    const recorded: string[] = [];
    let messages = 0;
    const { audit } = auditCalls([
      { record: ({ auditID }) => void recorded.push(auditID) },
      { record: ({ auditID }) => void recorded.push(`2-${auditID}`) },
    ]);
    const call = (_: string, lines?: unknown) => {
      messages += 1;
      return (audit as (lines: unknown) => Promise<void>)(lines);
    };
    const sink = new RemoteAuditSink({ calls: { call }, waits: false, clock, onDropped: () => undefined });
    expect(sink.record(event('a'))).toBeUndefined();
    expect(sink.record(event('b'))).toBeUndefined();
    expect(recorded).toEqual([]);
    await clock.advance(50);
    await sink.stop();
    expect(recorded).toEqual(['a', '2-a', 'b', '2-b']);
    expect(messages).toBe(1);
    sink.record(event('c'));
    await sink.stop();
    expect(recorded).toHaveLength(6);
  });

  it('lets requests wait for sinks that do not buffer events, and passes on their errors', async () => {
    const { audit } = auditCalls([{ record: () => Promise.reject(new Error('the disk is full')) }]);
    const call = (_: string, lines?: unknown) => (audit as (lines: unknown) => Promise<void>)(lines);
    const sink = new RemoteAuditSink({ calls: { call }, waits: true, clock: new FakeClock(), onDropped: () => undefined });
    await expect(sink.record(event('a'))).rejects.toThrow('the disk is full');
  });

  it('drops and counts events that the first process does not take', async () => {
    let dropped = 0;
    const clock = new FakeClock();
    const call = () => new Promise<never>(() => undefined);
    const onDropped = (events: number) => {
      dropped += events;
    };
    const sink = new RemoteAuditSink({ calls: { call }, waits: false, clock, onDropped });
    for (let index = 0; index < 10_005; index++) sink.record(event('a'));
    expect(dropped).toBe(5);
  });
});
