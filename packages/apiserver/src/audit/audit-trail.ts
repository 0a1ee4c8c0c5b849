import { isObject } from '@oarlock/api/json/json';
import type { Status } from '@oarlock/api/status';
import type { AuditEvent, AuditObjectRef, AuditStage, AuditUser } from '@oarlock/spi/audit';
import type { Identity } from '@oarlock/spi/authn';
import type { Attributes } from '@oarlock/spi/authz';
import type { ImpersonationResult } from '../authentication/impersonation.ts';
import type { PipelineResponse } from '../request/response.ts';
import type { AuditScope } from './audit-policy.ts';
import { isConfidential } from '../request/confidential.ts';
import { listObjectOf, withoutManagedFields } from './audit-objects.ts';

/** The attributes of a request for audit events that are known before authentication. */
export interface AuditSubject {
  readonly auditID: string;
  readonly requestURI: string;
  readonly userAgent: string | undefined;
  readonly sourceIPs: readonly string[];
  /** The time in milliseconds since the Unix epoch at which the request arrived. */
  readonly receivedAt: number;
}

const maxAnnotations = 64;
const maxUserAgent = 1024;
/** The latency in milliseconds above which a request is annotated with its latency, as upstream does. */
const slowMs = 500;

type Writable<T> = { -readonly [K in keyof T]: T[K] };

export interface AuditTrailOptions {
  readonly scope: AuditScope;
  /** Passes an event to the sinks. Returns a promise if a sink applies back pressure. */
  readonly record: (event: AuditEvent) => Promise<void> | undefined;
  /** Returns the time in milliseconds since the Unix epoch. */
  readonly now: () => number;
}

/** Records the audit events of one request from its authentication on. Content that the policy excludes is not stored. */
export class AuditTrail {
  readonly #scope: AuditScope;
  readonly #record: (event: AuditEvent) => Promise<void> | undefined;
  readonly #now: () => number;
  readonly #whole: boolean;
  /** The common part of all events. The object is changed in place and copied for each event, because most requests have one event. */
  readonly #event: Writable<Omit<AuditEvent, 'stage' | 'stageTimestamp'>>;
  /** The annotations. The object is changed in place until an event refers to it. */
  #annotations: Record<string, string> = {};
  #annotationCount = 0;
  #annotationsRecorded = false;
  #isComplete = false;
  /** True if error messages are omitted from events, because they may quote a confidential body. */
  readonly #silent: boolean;
  /** True for watches and streams, whose latency is not recorded. */
  #longRunning = false;
  readonly #receivedAt: number;

  constructor(subject: AuditSubject, attributes: Attributes, { scope, record, now }: AuditTrailOptions) {
    this.#scope = scope;
    this.#record = record;
    this.#now = now;
    this.#whole = scope.level === 'RequestResponse';
    this.#silent = scope.level === 'Metadata' && attributes.kind === 'resource' && isConfidential(attributes);
    const { auditID, requestURI, userAgent, sourceIPs, receivedAt } = subject;
    this.#receivedAt = receivedAt;
    this.#event = {
      kind: 'Event',
      apiVersion: 'audit.k8s.io/v1',
      level: scope.level,
      auditID,
      requestURI,
      verb: attributes.verb,
      user: userOf(attributes.identity),
      requestReceivedTimestamp: microTime(receivedAt),
    };
    if (sourceIPs.length > 0) this.#event.sourceIPs = sourceIPs;
    if (userAgent !== undefined)
      this.#event.userAgent = userAgent.length > maxUserAgent ? `${userAgent.slice(0, maxUserAgent)}...TRUNCATED` : userAgent;
    const objectRef = refOf(attributes);
    if (objectRef !== undefined) this.#event.objectRef = objectRef;
  }

  /** Records the stage RequestReceived. If a promise is returned, the request must wait for it. */
  recordReceived(): Promise<void> | undefined {
    return this.#write('RequestReceived');
  }

  setImpersonatedUser({ identity, constraint }: ImpersonationResult): void {
    this.#event.impersonatedUser = userOf(identity);
    if (constraint !== undefined) this.#event.authenticationMetadata = { impersonationConstraint: constraint };
  }

  /** Adds an annotation to later events. If the key exists, the first value is kept, as upstream does. */
  annotate(key: string, value: string, level?: 'Request'): void {
    if (level === 'Request' && this.#scope.level === 'Metadata') return;
    if (Object.hasOwn(this.#annotations, key) || this.#annotationCount >= maxAnnotations) return;
    // an event that has been recorded keeps those it had
    if (this.#annotationsRecorded) this.#annotations = { ...this.#annotations };
    this.#annotationsRecorded = false;
    this.#annotations[key] = value;
    this.#annotationCount += 1;
  }

  /** Sets the decoded request body, which must not change afterwards. */
  setRequestObject(body: unknown): void {
    if (body === undefined) return;
    const objectRef = this.#event.objectRef && withNameFromBody(this.#event.objectRef, body, this.#silent);
    if (objectRef !== undefined) this.#event.objectRef = objectRef;
    if (this.#scope.level !== 'Metadata') this.#event.requestObject = this.#redact(body);
  }

  /** Records the stage ResponseStarted of a long-running request. */
  recordResponseStarted(): void {
    this.#longRunning = true;
    this.#event.responseStatus = { metadata: {}, code: 200 };
    void this.#write('ResponseStarted');
  }

  setResponse(response: PipelineResponse): void {
    if (!this.#whole) return;
    if (response.kind === 'object') this.#event.responseObject = this.#redact(response.item.object);
    if (response.kind === 'list') this.#event.responseObject = this.#redact(listObjectOf(response));
  }

  recordRejection(rejection: Status): void {
    const { status, reason, code } = rejection;
    if (this.#silent) {
      this.#event.responseStatus = { metadata: {}, status, reason, code };
      return;
    }
    const { message, details } = rejection;
    this.#event.responseStatus = { metadata: {}, status, message, reason, details, code };
    if (this.#whole)
      this.#event.responseObject = { kind: 'Status', apiVersion: 'v1', metadata: {}, status, message, reason, details, code };
  }

  /** Records the stage Panic, which ends the events of a request with an internal error. */
  recordPanic(fault: unknown): void {
    const message = `APIServer panic'd: ${this.#silent ? 'the message is withheld' : fault instanceof Error ? fault.message : String(fault)}`;
    this.#event.responseStatus = { metadata: {}, status: 'Failure', message, reason: 'InternalError', code: 500 };
    void this.#write('Panic');
    this.#isComplete = true;
  }

  recordResponseComplete(code: number): void {
    if (this.#isComplete) return;
    const ms = this.#now() - this.#receivedAt;
    if (!this.#longRunning && ms > slowMs) this.annotate('apiserver.latency.k8s.io/total', `${ms / 1000}s`);
    const { responseStatus } = this.#event;
    this.#event.responseStatus = responseStatus === undefined ? { metadata: {}, code } : { metadata: {}, ...responseStatus, code };
    void this.#write('ResponseComplete');
  }

  /** Records a request whose authentication failed. */
  recordUnauthenticated(message: string, code: number): void {
    this.#event.user = {};
    this.#event.responseStatus = { metadata: {}, status: 'Failure', message, code };
    void this.#write('ResponseStarted');
  }

  #redact(value: unknown): unknown {
    return this.#scope.omitManagedFields ? withoutManagedFields(value) : value;
  }

  #write(stage: AuditStage): Promise<void> | undefined {
    if (this.#scope.omitStages.has(stage)) return undefined;
    const event: Writable<AuditEvent> = { ...this.#event, stage, stageTimestamp: microTime(this.#now()) };
    if (this.#annotationCount > 0) {
      event.annotations = Object.freeze(this.#annotations);
      this.#annotationsRecorded = true;
    }
    return this.#record(Object.freeze(event));
  }
}

/** Formats a time in milliseconds as metav1.MicroTime. */
const microTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, -1)}000Z`;

// assignments instead of conditional spreads, which made half of the cost of an event

function userOf({ name, uid, groups, extra }: Identity): AuditUser {
  const user: Writable<AuditUser> = { username: name, groups };
  if (uid !== undefined) user.uid = uid;
  if (extra !== undefined) user.extra = extra;
  return user;
}

function refOf(attributes: Attributes): AuditObjectRef | undefined {
  if (attributes.kind === 'path') return undefined;
  const { resource, namespace, name, group, version, subresource } = attributes;
  const ref: Writable<AuditObjectRef> = { resource };
  if (namespace !== '') ref.namespace = namespace;
  if (name !== '') ref.name = name;
  if (group !== '') ref.apiGroup = group;
  if (version !== '') ref.apiVersion = version;
  if (subresource !== '') ref.subresource = subresource;
  return ref;
}

const identityFormats = {
  namespace: /^[a-z0-9][-a-z0-9]{0,62}$/,
  name: /^[a-z0-9][-.a-z0-9]{0,252}$/,
  uid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  resourceVersion: /^[0-9]{1,20}$/,
} as const;

/**
 * Adds to an object reference the identity of the object in the body, if the path does not contain it. From a confidential body, only
 * values of the expected format are added, because another value could be confidential content.
 */
function withNameFromBody(ref: AuditObjectRef, body: unknown, isConfidentialBody: boolean): AuditObjectRef | undefined {
  const metadata = isObject(body) ? body['metadata'] : undefined;
  if (!isObject(metadata)) return undefined;
  const text = (key: keyof typeof identityFormats) => {
    const value = metadata[key];
    if (typeof value !== 'string' || value === '') return {};
    return isConfidentialBody && !identityFormats[key].test(value) ? {} : { [key]: value };
  };
  return { ...text('namespace'), ...text('name'), ...text('uid'), ...text('resourceVersion'), ...ref };
}
