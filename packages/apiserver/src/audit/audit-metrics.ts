import { readCounter } from '@oarlock/kernel/precomputed-metrics';
import type { AuditLevel } from '@oarlock/spi/audit';
import type { Registry } from 'prom-client';

/** The metrics of auditing, under upstream's names. */
export class AuditMetrics {
  #events = 0;
  #rejected = 0;
  readonly #levels = new Map<AuditLevel | 'None', number>();

  constructor(registry: Registry) {
    const total = (name: string, help: string, read: () => number) =>
      readCounter(registry, { name: `apiserver_audit_${name}_total`, help, labelNames: [] }, () => [[{}, read()]]);
    total('event', 'Counter of audit events generated and sent to the audit backend.', () => this.#events);
    total('requests_rejected', 'Counter of apiserver requests rejected due to an error in audit logging backend.', () => this.#rejected);
    readCounter(
      registry,
      {
        name: 'apiserver_audit_level_total',
        help: 'Counter of policy levels for audit events (1 per request).',
        labelNames: ['level'],
      },
      () => [...this.#levels].map(([level, count]) => [{ level }, count]),
    );
  }

  countEvent(): void {
    this.#events++;
  }
  countRejectedRequest(): void {
    this.#rejected++;
  }
  /** Counts a request by the level of the policy for it. */
  countRequest(level: AuditLevel | 'None'): void {
    this.#levels.set(level, (this.#levels.get(level) ?? 0) + 1);
  }
}
