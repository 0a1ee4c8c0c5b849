import { slot } from '@oarlock/kernel/slot';

/** The audit level: the amount of data that is recorded for a request. */
export type AuditLevel = 'Metadata' | 'Request' | 'RequestResponse';
/** The stage of a request at which an event is created. Streams and watches also have `ResponseStarted`. */
export type AuditStage = 'RequestReceived' | 'ResponseStarted' | 'ResponseComplete' | 'Panic';

/** A user in an audit event (`UserInfo` of `authentication.k8s.io/v1`). */
export interface AuditUser {
  readonly username?: string | undefined;
  readonly uid?: string | undefined;
  readonly groups?: readonly string[] | undefined;
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

/** The object that a request refers to. Empty fields are omitted. */
export interface AuditObjectRef {
  readonly resource?: string | undefined;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly uid?: string | undefined;
  readonly apiGroup?: string | undefined;
  readonly apiVersion?: string | undefined;
  readonly resourceVersion?: string | undefined;
  readonly subresource?: string | undefined;
}

/** One stage of one request: an `Event` of `audit.k8s.io/v1`, with the field names of its JSON form. A field that
 * does not apply is absent or undefined. Deeply frozen, and shared by all sinks. */
export interface AuditEvent {
  readonly kind: 'Event';
  readonly apiVersion: 'audit.k8s.io/v1';
  readonly level: AuditLevel;
  readonly auditID: string;
  readonly stage: AuditStage;
  /** The request URI as the client sent it. */
  readonly requestURI: string;
  readonly verb: string;
  /** The authenticated user; empty if the request was not authenticated. */
  readonly user: AuditUser;
  readonly impersonatedUser?: AuditUser | undefined;
  /** The verb of constrained impersonation that allowed the impersonation, if one did. */
  readonly authenticationMetadata?: { readonly impersonationConstraint?: string } | undefined;
  readonly sourceIPs?: readonly string[] | undefined;
  readonly userAgent?: string | undefined;
  /** The object of the request; absent for non-resource paths. */
  readonly objectRef?: AuditObjectRef | undefined;
  readonly responseStatus?: Readonly<Record<string, unknown>> | undefined;
  /** The request body; present at level `Request` and above. */
  readonly requestObject?: unknown;
  /** The response body; present at level `RequestResponse`. */
  readonly responseObject?: unknown;
  /** Time in RFC 3339 with microseconds. */
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

/**
 * A destination of audit events.
 *
 * Guaranteed by a sink: every recorded event is kept once and in order, or counted as dropped; memory use is bounded; `stop` keeps buffered events;
 * `record` does not throw after `stop`.
 *
 * Not guaranteed: that an event is stored when `record` returns, unless `record` returned a promise.
 */
export interface AuditSink {
  /**
   * Records an event.
   *
   * A sink that returns nothing is non-blocking: it drops and counts events that it cannot keep. If it returns a promise, it
   * applies back pressure: the API server starts no further request of any client until the promise settles. A rejection for stage
   * `RequestReceived` fails that request.
   */
  record(event: AuditEvent): void | Promise<void>;
}

export const Audit = slot.chain<AuditSink>('audit/v1');
