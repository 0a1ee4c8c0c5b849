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

/** What is known of a request before it is known who sent it. */
export interface AuditSubject {
  readonly auditID: string;
  readonly requestURI: string;
  readonly userAgent: string | undefined;
  readonly sourceIPs: readonly string[];
  /** Milliseconds since the epoch. */
  readonly receivedAt: number;
}

const maxAnnotations = 64;
const maxUserAgent = 1024;
/** Of requests that took longer it is said how long, as Kubernetes does. */
const slowMs = 500;

type Writable<T> = { -readonly [K in keyof T]: T[K] };

/** The audit events of one request, from when it is known who asks. What is not to be written down is not kept. */
export class AuditTrail {
  readonly #scope: AuditScope;
  readonly #record: (event: AuditEvent) => Promise<void> | undefined;
  readonly #now: () => number;
  readonly #whole: boolean;
  /** Changed in place and copied for each event: most requests have one. */
  readonly #event: Writable<Omit<AuditEvent, 'stage' | 'stageTimestamp'>>;
  /** Changed in place until an event has them. */
  #annotations: Record<string, string> = {};
  #annotationCount = 0;
  #annotationsRecorded = false;
  #completed = false;
  /** Messages may quote bodies, which are not for this event. */
  readonly #silent: boolean;
  /** It stays open for long, whatever it does meanwhile. */
  #longRunning = false;
  readonly #receivedAt: number;

  constructor(
    subject: AuditSubject,
    attributes: Attributes,
    scope: AuditScope,
    record: (event: AuditEvent) => Promise<void> | undefined,
    now: () => number,
  ) {
    this.#scope = scope;
    this.#record = record;
    this.#now = now;
    this.#whole = scope.level === 'RequestResponse';
    this.#silent =
      scope.level === 'Metadata' &&
      attributes.kind === 'resource' &&
      isConfidential(attributes.group, attributes.resource, attributes.subresource);
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

  /** Where a promise is returned, the request waits for it. */
  recordReceived(): Promise<void> | undefined {
    return this.#write('RequestReceived');
  }

  setImpersonatedUser({ identity, constraint }: ImpersonationResult): void {
    this.#event.impersonatedUser = userOf(identity);
    if (constraint !== undefined) this.#event.authenticationMetadata = { impersonationConstraint: constraint };
  }

  /** For the events to come. The first value of a key stays, as upstream keeps it. */
  annotate(key: string, value: string, level?: 'Request'): void {
    if (level === 'Request' && this.#scope.level === 'Metadata') return;
    if (Object.hasOwn(this.#annotations, key) || this.#annotationCount >= maxAnnotations) return;
    // an event that has been recorded keeps those it had
    if (this.#annotationsRecorded) this.#annotations = { ...this.#annotations };
    this.#annotationsRecorded = false;
    this.#annotations[key] = value;
    this.#annotationCount += 1;
  }

  /** The body, once it has been decoded. It is nobody's to change. */
  setRequestObject(body: unknown): void {
    if (body === undefined) return;
    const objectRef = this.#event.objectRef && withNameFromBody(this.#event.objectRef, body);
    if (objectRef !== undefined) this.#event.objectRef = objectRef;
    if (this.#scope.level !== 'Metadata') this.#event.requestObject = this.#redact(body);
  }

  /** A request that stays open is told of when it begins, too. */
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

  /** A fault of the server's own ended the request: its last event, as after a panic of Kubernetes' server. */
  recordPanic(fault: unknown): void {
    const message = `APIServer panic'd: ${this.#silent ? 'the message is withheld' : fault instanceof Error ? fault.message : String(fault)}`;
    this.#event.responseStatus = { metadata: {}, status: 'Failure', message, reason: 'InternalError', code: 500 };
    void this.#write('Panic');
    this.#completed = true;
  }

  recordResponseComplete(code: number): void {
    if (this.#completed) return;
    const ms = this.#now() - this.#receivedAt;
    if (!this.#longRunning && ms > slowMs) this.annotate('apiserver.latency.k8s.io/total', `${ms / 1000}s`);
    const { responseStatus } = this.#event;
    this.#event.responseStatus = responseStatus === undefined ? { metadata: {}, code } : { metadata: {}, ...responseStatus, code };
    void this.#write('ResponseComplete');
  }

  /** Nobody is known to have sent it. */
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

/** As `MicroTime` of Kubernetes is written. */
const microTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, -1)}000Z`;

// assignments instead of conditional spreads, which made half of the cost of an event

function userOf({ name, uid, groups, extra }: Identity): AuditUser {
  const user: Writable<AuditUser> = { username: name, groups };
  if (uid !== undefined) user.uid = uid;
  if (extra !== undefined) user.extra = extra;
  return user;
}

function refOf(asked: Attributes): AuditObjectRef | undefined {
  if (asked.kind === 'path') return undefined;
  const { resource, namespace, name, group, version, subresource } = asked;
  const ref: Writable<AuditObjectRef> = { resource };
  if (namespace !== '') ref.namespace = namespace;
  if (name !== '') ref.name = name;
  if (group !== '') ref.apiGroup = group;
  if (version !== '') ref.apiVersion = version;
  if (subresource !== '') ref.subresource = subresource;
  return ref;
}

/** What the path does not say of an object, its body may. */
function withNameFromBody(ref: AuditObjectRef, body: unknown): AuditObjectRef | undefined {
  const metadata = isObject(body) ? body['metadata'] : undefined;
  if (!isObject(metadata)) return undefined;
  const text = (key: string) => (typeof metadata[key] === 'string' && metadata[key] !== '' ? { [key]: metadata[key] } : {});
  return { ...text('namespace'), ...text('name'), ...text('uid'), ...text('resourceVersion'), ...ref };
}
