import { deepFreeze } from '@oarlock/api/object';
import type { Plugin } from '@oarlock/kernel/plugin';
import type { Clock, Timer } from '@oarlock/primitives/clock';
import { Audit, type AuditEvent, type AuditSink } from '@oarlock/spi/audit';
import { Counter } from 'prom-client';
import { z } from 'zod';
import type { Plan } from '../composition/plan.ts';
import type { CallHandlers, ProcessCalls } from './process-calls.ts';

/** How long events wait for others if requests do not wait for them, in milliseconds: a message between processes costs more than an event. */
const batchMs = 50;
/** The events of a worker that the first process has not taken; further ones are dropped and counted. */
const maxOutstanding = 10_000;

/** Returns true if requests must wait for the audit sinks of a plan: for all that do not declare in their config that they buffer events. */
export const auditWaits = ({ plugins }: Plan): boolean =>
  plugins.some(
    ({ plugin, config }) => plugin.provides.token === Audit.token && (config as { readonly mode?: unknown } | undefined)?.mode !== 'batch',
  );

/** Returns the handler of the calls that `remoteAuditPlugin` sends from a worker: its events go to the sinks of the first process. */
export function auditCalls(sinks: readonly AuditSink[]): CallHandlers {
  return {
    async audit(lines: string): Promise<void> {
      const recorded: Promise<void>[] = [];
      for (const event of deepFreeze(JSON.parse(lines) as AuditEvent[]))
        for (const sink of sinks) {
          const pending = sink.record(event);
          if (pending !== undefined) recorded.push(pending);
        }
      await Promise.all(recorded);
    },
  };
}

export interface RemoteAuditOptions {
  readonly calls: Pick<ProcessCalls, 'call'>;
  readonly waits: boolean;
  readonly clock: Clock;
  onDropped(events: number): void;
}

/** Sends audit events to the first process: those of one turn of the event loop together, or those of 50 ms if requests do not wait for them. */
export class RemoteAuditSink implements AuditSink {
  readonly #options: RemoteAuditOptions;
  #events: AuditEvent[] = [];
  #sent: Promise<void> | undefined;
  #outstanding = 0;
  #flush: () => void = () => undefined;
  #timer: Timer | undefined;
  readonly #pending = new Set<Promise<void>>();

  constructor(options: RemoteAuditOptions) {
    this.#options = options;
  }

  record(event: AuditEvent): void | Promise<void> {
    const { waits, onDropped } = this.#options;
    if (!waits && this.#outstanding >= maxOutstanding) {
      onDropped(1);
      return undefined;
    }
    this.#outstanding += 1;
    this.#events.push(event);
    this.#sent ??= this.#sendSoon();
    return waits ? this.#sent : undefined;
  }

  /** Resolves when the first process has the events. */
  async stop(): Promise<void> {
    this.#timer?.cancel();
    this.#flush();
    await Promise.all(this.#pending);
  }

  #sendSoon(): Promise<void> {
    const sent = new Promise<void>((resolve) => {
      this.#flush = resolve;
      if (this.#options.waits) setImmediate(resolve);
      else this.#timer = this.#options.clock.after(batchMs, resolve);
    }).then(() => this.#send());
    this.#pending.add(sent);
    const done = () => this.#pending.delete(sent);
    sent.then(done, done);
    return sent;
  }

  async #send(): Promise<void> {
    const events = this.#events;
    this.#events = [];
    this.#sent = undefined;
    const { calls, waits, onDropped } = this.#options;
    try {
      await calls.call('audit', JSON.stringify(events));
    } catch (error) {
      if (waits) throw error;
      onDropped(events.length);
    } finally {
      this.#outstanding -= events.length;
    }
  }
}

export const remoteAuditPlugin = (calls: Pick<ProcessCalls, 'call'>, waits: boolean): Plugin =>
  Audit.plugin({
    id: 'audit-of-first-process',
    config: z.strictObject({}),
    create(_, { metrics, clock }) {
      const dropped = new Counter({
        name: 'oarlock_worker_audit_dropped_total',
        help: 'Audit events of workers that did not reach the audit sinks.',
        registers: [metrics],
      });
      return new RemoteAuditSink({ calls, waits, clock, onDropped: (events) => dropped.inc(events) });
    },
  });
