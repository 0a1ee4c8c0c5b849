import type { Clock } from '@oarlock/kernel/clock';
import type { AuditEvent, AuditSink } from '@oarlock/spi/audit';
import type { Attributes } from '@oarlock/spi/authz';

const none: Readonly<Record<string, string>> = Object.freeze({});
const maxAnnotations = 64;

/** The audit events of one request, from when it is known who asks. */
export class AuditTrail {
  readonly #sinks: readonly AuditSink[];
  readonly #auditID: string;
  readonly #clock: Clock;
  readonly #receivedAt: number;
  #attributes: Attributes | undefined;
  #annotations: Readonly<Record<string, string>> = none;

  constructor(sinks: readonly AuditSink[], auditID: string, clock: Clock) {
    this.#sinks = sinks;
    this.#auditID = auditID;
    this.#clock = clock;
    this.#receivedAt = clock.now();
  }

  /** A request that stays open is told of when it begins, too. */
  receive(attributes: Attributes, longRunning: boolean): void {
    this.#attributes = attributes;
    this.#record('RequestReceived', attributes);
    if (longRunning) this.#record('ResponseStarted', attributes);
  }

  /** For the events to come. The first value of a key stays, as upstream keeps it. */
  annotate(key: string, value: string): void {
    const annotations = this.#annotations;
    if (Object.hasOwn(annotations, key) || Object.keys(annotations).length >= maxAnnotations) return;
    // an event that has been recorded keeps those it had
    this.#annotations = Object.freeze({ ...annotations, [key]: value });
  }

  /** Requests that nobody is known to have made leave no trail. */
  complete(code: number): void {
    if (this.#attributes !== undefined) this.#record('ResponseComplete', this.#attributes, code);
  }

  #record(stage: AuditEvent['stage'], attributes: Attributes, code?: number): void {
    const event: AuditEvent = {
      auditID: this.#auditID,
      stage,
      attributes,
      receivedAt: this.#receivedAt,
      at: this.#clock.now(),
      annotations: this.#annotations,
      ...(code !== undefined && { code }),
    };
    for (const sink of this.#sinks) sink.record(event);
  }
}
