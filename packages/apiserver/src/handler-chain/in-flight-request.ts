import type { StatusError } from '@oarlock/api/status';
import type { AuditTrail } from '../audit/audit-trail.ts';
import type { LatencyStep, LatencyTracker } from '../endpoints/request/latency-tracker.ts';
import type { Exchange, UpgradeRequest } from '../http/exchange.ts';
import type { RequestTarget } from '../http/path.ts';
import type { RequestInfo } from '../http/request-info.ts';
import type { Route } from '../http/routes.ts';

/** The steps in which a request waits for others than the API server and its storage. */
const isWait: Readonly<Partial<Record<LatencyStep, boolean>>> = {
  'apf-queue-wait': true,
  'mutating-webhook': true,
  'validating-webhook': true,
};

/** The state of one request in the handler chain. */
export class InFlightRequest implements LatencyTracker {
  readonly auditId: string;
  /** The time of arrival in milliseconds of the monotonic clock. */
  readonly startedAt: number;
  /** The time of arrival in milliseconds since the Unix epoch. */
  readonly receivedAt: number;
  audit: AuditTrail | undefined;
  target: RequestTarget | undefined;
  /** The route of the resource at the path, if a resource is served there. */
  route: Route | undefined;
  readonly warnings: string[] = [];
  /** Milliseconds that the request waited in API Priority and Fairness and for admission webhooks. */
  waitMs = 0;
  /** Releases the request's seat in API Priority and Fairness. */
  release: (() => void) | undefined;

  constructor({ auditId, startedAt, receivedAt }: Pick<InFlightRequest, 'auditId' | 'startedAt' | 'receivedAt'>) {
    this.auditId = auditId;
    this.startedAt = startedAt;
    this.receivedAt = receivedAt;
  }

  addLatency(step: LatencyStep, ms: number): void {
    if (isWait[step] === true) this.waitMs += ms;
    this.audit?.addLatency(step, ms);
  }
}

/** A request whose target has been parsed. */
export interface ParsedRequest {
  readonly exchange: Exchange;
  /** The upgrade that the client requests; undefined for other requests. */
  readonly upgrade: UpgradeRequest | undefined;
  readonly state: InFlightRequest;
  readonly target: RequestTarget;
  readonly info: RequestInfo;
  /** The error of a resource path at which no resource is served; undefined if upstream responds with a plain 404 page. */
  readonly pathError: StatusError | undefined;
}
