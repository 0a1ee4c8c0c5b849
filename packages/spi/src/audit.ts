import { slot } from '@oarlock/kernel/slot';
import type { Attributes } from './authz.ts';

/** One finished (or begun) request, as `audit.k8s.io/v1 Event` has it. */
export interface AuditEvent {
  readonly auditID: string;
  readonly stage: 'RequestReceived' | 'ResponseStarted' | 'ResponseComplete' | 'Panic';
  readonly attributes: Attributes;
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
  readonly at: number;
  readonly code?: number;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface AuditSink {
  /** Takes the event and returns at once. A sink that cannot keep up drops and counts. */
  record(event: AuditEvent): void;
}

export const Audit = slot.chain<AuditSink>('audit/v1');
