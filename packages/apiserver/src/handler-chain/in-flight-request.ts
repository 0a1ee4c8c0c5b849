import type { StatusError } from '@oarlock/api/status';
import type { AuditTrail } from '../audit/audit-trail.ts';
import type { Exchange, UpgradeRequest } from '../http/exchange.ts';
import type { RequestTarget } from '../http/path.ts';
import type { RequestInfo } from '../http/request-info.ts';
import type { Route } from '../http/routes.ts';

/** The state of a request in the handler chain. */
export interface InFlightRequest {
  readonly auditId: string;
  /** Milliseconds since the Unix epoch. */
  readonly receivedAt: number;
  audit?: AuditTrail | undefined;
  target?: RequestTarget;
  route?: Route;
  readonly warnings: string[];
  /** Releases the request's seat of flow control. */
  release?: () => void;
}

/** A request whose target has been parsed. */
export interface ParsedRequest {
  readonly exchange: Exchange;
  /** Present if the client requests an upgrade. */
  readonly upgrade: UpgradeRequest | undefined;
  readonly state: InFlightRequest;
  readonly target: RequestTarget;
  readonly info: RequestInfo;
  /** The route, or the error of a path without one; undefined for paths that are not of a resource. */
  readonly found: Route | StatusError | undefined;
}
