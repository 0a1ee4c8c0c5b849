import { slot } from '@oarlock/kernel/slot';

/** How much of a request is written down. */
export type AuditLevel = 'Metadata' | 'Request' | 'RequestResponse';
/** The points of a request at which an event is made. Streams and watches have `ResponseStarted`, too. */
export type AuditStage = 'RequestReceived' | 'ResponseStarted' | 'ResponseComplete' | 'Panic';

/** `UserInfo` of `authentication.k8s.io/v1`. */
export interface AuditUser {
  readonly username?: string;
  readonly uid?: string;
  readonly groups?: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** What a request is about. Empty parts are left out. */
export interface AuditObjectRef {
  readonly resource?: string;
  readonly namespace?: string;
  readonly name?: string;
  readonly uid?: string;
  readonly apiGroup?: string;
  readonly apiVersion?: string;
  readonly resourceVersion?: string;
  readonly subresource?: string;
}

/** One stage of one request: an `Event` of `audit.k8s.io/v1`, as it is written down. Frozen, and shared by all sinks. */
export interface AuditEvent {
  readonly kind: 'Event';
  readonly apiVersion: 'audit.k8s.io/v1';
  readonly level: AuditLevel;
  readonly auditID: string;
  readonly stage: AuditStage;
  /** As the client sent it. */
  readonly requestURI: string;
  readonly verb: string;
  /** Empty where nobody is known to have asked. */
  readonly user: AuditUser;
  readonly impersonatedUser?: AuditUser;
  /** Which verb of constrained impersonation allowed that, where one did. */
  readonly authenticationMetadata?: { readonly impersonationConstraint?: string };
  readonly sourceIPs?: readonly string[];
  readonly userAgent?: string;
  /** Absent for paths that are no resources. */
  readonly objectRef?: AuditObjectRef;
  readonly responseStatus?: Readonly<Record<string, unknown>>;
  /** From level `Request` on. */
  readonly requestObject?: unknown;
  /** At level `RequestResponse`. */
  readonly responseObject?: unknown;
  /** RFC 3339 with microseconds. */
  readonly requestReceivedTimestamp: string;
  readonly stageTimestamp: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface AuditSink {
  /**
   * Takes the event and returns at once. A sink that cannot keep up drops and counts, or returns a promise: then no further request is
   * begun before it settles. A promise for a `RequestReceived` that rejects fails that request.
   */
  record(event: AuditEvent): void | Promise<void>;
}

export const Audit = slot.chain<AuditSink>('audit/v1');
