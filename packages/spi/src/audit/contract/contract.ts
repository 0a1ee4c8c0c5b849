import { deepFreeze } from '@oarlock/api/object';
import { beforeEach, describe, expect, it } from 'vitest';
import type { AuditEvent, AuditSink } from '../audit.ts';

/** Access to the audit sink under test, provided by the package of the sink. */
export interface AuditFixture {
  /** The audit sink under test, started and non-blocking. */
  readonly sink: AuditSink;
  /** Waits until the events recorded so far are stored, and returns them in order. */
  storedEvents(): Promise<readonly Pick<AuditEvent, 'auditID' | 'stage'>[]>;
  /** Blocks the destination of the events until `resume`. Absent if the sink stores the events itself, in bounded memory. */
  readonly stall?: () => void;
  readonly resume?: () => void;
  /** Returns the number of events dropped so far. */
  dropped(): number | Promise<number>;
  /** Maximum number of buffered events. */
  readonly capacity: number;
  /** Stops the sink after it has stored the buffered events. */
  stop(): Promise<void>;
  dispose?(): Promise<void>;
}

/** Returns an event of a `get` of a pod. `id` becomes its audit ID. */
export const auditEvent = (id: number, more: Partial<AuditEvent> = {}): AuditEvent =>
  deepFreeze({
    kind: 'Event',
    apiVersion: 'audit.k8s.io/v1',
    level: 'Metadata',
    auditID: `00000000-0000-4000-8000-${String(id).padStart(12, '0')}`,
    stage: 'ResponseComplete',
    requestURI: `/api/v1/namespaces/default/pods/pod-${id}`,
    verb: 'get',
    user: { username: 'alice', groups: ['system:authenticated'] },
    sourceIPs: ['192.0.2.1'],
    userAgent: 'kubectl/v1.36.0',
    objectRef: { resource: 'pods', namespace: 'default', name: `pod-${id}`, apiVersion: 'v1' },
    responseStatus: { metadata: {}, code: 200 },
    requestReceivedTimestamp: '2026-01-01T00:00:00.000000Z',
    stageTimestamp: '2026-01-01T00:00:00.005000Z',
    annotations: { 'authorization.k8s.io/decision': 'allow' },
    ...more,
  });

/** Declares the tests that every audit sink must pass. */
export function auditContract(name: string, open: () => Promise<AuditFixture> | AuditFixture): void {
  describe(`audit/v1 contract: ${name}`, { timeout: 300_000 }, () => {
    let fixture: AuditFixture;
    beforeEach(async () => {
      fixture = await open();
      return () => fixture.dispose?.();
    });
    const record = (event: AuditEvent) => {
      expect(fixture.sink.record(event), 'record returns nothing and waits for nothing unless requests are to wait').toBeUndefined();
    };

    it('stores every event once, in order', async () => {
      const events = Array.from({ length: Math.min(fixture.capacity, 200) }, (_, id) =>
        auditEvent(id, { stage: id % 2 === 0 ? 'RequestReceived' : 'ResponseComplete' }),
      );
      for (const event of events) record(event);
      expect((await fixture.storedEvents()).map(({ auditID, stage }) => ({ auditID, stage }))).toEqual(
        events.map(({ auditID, stage }) => ({ auditID, stage })),
      );
      expect(await fixture.dropped()).toBe(0);
    });

    it('stores events of every stage, and strings that need escaping', async () => {
      const {
        objectRef: _,
        responseStatus: __,
        ...path
      } = auditEvent(1, {
        requestURI: '/healthz?\r\nforged: yes',
        user: { username: 'line\nbreak "quotes" \u2028 ü', groups: [], extra: { 'a/b': ['\u0000', '\\'] } },
        annotations: { 'x/y': '\n{"auditID":"forged"}\n' },
      });
      record(deepFreeze(path));
      const { responseStatus: ___, ...received } = auditEvent(2, { stage: 'RequestReceived' });
      record(deepFreeze(received));
      record(auditEvent(3, { stage: 'Panic', responseStatus: { metadata: {}, code: 500 } }));
      expect((await fixture.storedEvents()).map(({ auditID }) => auditID)).toEqual([1, 2, 3].map((id) => auditEvent(id).auditID));
    });

    it('drops and counts events when its destination blocks, and continues afterwards', async (context) => {
      if (fixture.stall === undefined) context.skip('nothing stands between the sink and its memory');
      fixture.stall?.();
      const sent = fixture.capacity * 3 + 10;
      for (let id = 0; id < sent; id++) record(auditEvent(id));
      const dropped = await fixture.dropped();
      expect(dropped, 'more waits than the bound').toBeGreaterThanOrEqual(sent - fixture.capacity * 2);
      fixture.resume?.();
      const kept = await fixture.storedEvents();
      expect(kept.length + (await fixture.dropped())).toBe(sent);
      const ids = kept.map(({ auditID }) => auditID);
      expect(ids).toEqual(ids.toSorted());
      record(auditEvent(sent));
      expect((await fixture.storedEvents()).at(-1)?.auditID).toBe(auditEvent(sent).auditID);
    });

    it('stores buffered events when it stops, and does not throw afterwards', async () => {
      for (let id = 0; id < Math.min(fixture.capacity, 50); id++) record(auditEvent(id));
      await fixture.stop();
      expect(await fixture.storedEvents()).toHaveLength(Math.min(fixture.capacity, 50));
      expect(() => fixture.sink.record(auditEvent(999))).not.toThrow();
      await fixture.stop();
    });
  });
}
