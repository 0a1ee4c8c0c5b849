import { isObject } from '@oarlock/api/json/json';
import { formatDuration } from '@oarlock/api/values/duration';
import type { Status } from '@oarlock/api/status';
import type { AuditEvent, AuditObjectRef, AuditStage, AuditUser } from '@oarlock/spi/audit';
import type { Identity } from '@oarlock/spi/authn';
import type { Attributes } from '@oarlock/spi/authz';
import { errorText } from '@oarlock/primitives/error-text';
import type { ImpersonationResult } from '../authentication/impersonation.ts';
import type { LatencyStep, LatencyTracker } from '../endpoints/request/latency-tracker.ts';
import type { PipelineResponse } from '../endpoints/request/response.ts';
import type { AuditScope } from './audit-policy.ts';
import { isConfidential } from '../endpoints/request/confidential.ts';
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

const latencyText = (ms: number) => formatDuration(BigInt(Math.round(ms * 1e6)));

interface AuditResponseStatus {
  readonly [field: string]: unknown;
  readonly code: number | undefined;
}

export interface AuditTrailOptions {
  readonly scope: AuditScope;
  /** Passes an event to the sinks. Returns a promise if a sink applies back pressure. */
  readonly record: (event: AuditEvent) => Promise<void> | undefined;
  /** Returns the time in milliseconds since the Unix epoch. */
  readonly now: () => number;
}

/** Records the audit events of one request from its authentication on. Content that the policy excludes is not stored. */
export class AuditTrail implements LatencyTracker {
  readonly #scope: AuditScope;
  readonly #record: (event: AuditEvent) => Promise<void> | undefined;
  readonly #now: () => number;
  readonly #whole: boolean;
  readonly #subject: AuditSubject;
  readonly #verb: string;
  readonly #requestReceivedTimestamp: string;
  readonly #userAgent: string | undefined;
  #user: AuditUser;
  #impersonatedUser: AuditUser | undefined;
  #authenticationMetadata: AuditEvent['authenticationMetadata'];
  #objectRef: AuditObjectRef | undefined;
  #responseStatus: AuditResponseStatus | undefined;
  #requestObject: unknown;
  #responseObject: unknown;
  /** The annotations. The object is changed in place until an event refers to it. */
  #annotations: Record<string, string> = {};
  #annotationCount = 0;
  #annotationsRecorded = false;
  #isComplete = false;
  /** True if error messages are omitted from events, because they may quote a confidential body. */
  readonly #silent: boolean;
  readonly #latencies: Record<LatencyStep, number> = {
    authentication: 0,
    authorization: 0,
    impersonation: 0,
    'apf-queue-wait': 0,
    'mutating-webhook': 0,
    'validating-webhook': 0,
    etcd: 0,
  };
  /** True for watches and streams, whose latency is not recorded. */
  #longRunning = false;

  constructor(subject: AuditSubject, attributes: Attributes, { scope, record, now }: AuditTrailOptions) {
    this.#scope = scope;
    this.#record = record;
    this.#now = now;
    this.#whole = scope.level === 'RequestResponse';
    this.#silent = scope.level === 'Metadata' && attributes.kind === 'resource' && isConfidential(attributes);
    const { userAgent, receivedAt } = subject;
    this.#subject = subject;
    this.#verb = attributes.verb;
    this.#requestReceivedTimestamp = microTime(receivedAt);
    this.#userAgent =
      userAgent !== undefined && userAgent.length > maxUserAgent ? `${userAgent.slice(0, maxUserAgent)}...TRUNCATED` : userAgent;
    this.#user = userOf(attributes.identity);
    this.#objectRef = refOf(attributes);
  }

  /** Records the stage RequestReceived. If a promise is returned, the request must wait for it. */
  recordReceived(): Promise<void> | undefined {
    return this.#write('RequestReceived');
  }

  setImpersonatedUser({ identity, constraint }: ImpersonationResult): void {
    this.#impersonatedUser = userOf(identity);
    if (constraint !== undefined) this.#authenticationMetadata = { impersonationConstraint: constraint };
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

  addLatency(step: LatencyStep, ms: number): void {
    this.#latencies[step] += ms;
  }

  /** Sets the decoded request body, which must not change afterwards. */
  setRequestObject(body: unknown): void {
    if (body === undefined) return;
    this.#objectRef = this.#objectRef && withNameFromBody(this.#objectRef, body, this.#silent);
    if (this.#scope.level !== 'Metadata') this.#requestObject = this.#redact(body);
  }

  /** Records the stage ResponseStarted of a long-running request. */
  recordResponseStarted(): void {
    this.#longRunning = true;
    this.#responseStatus = { metadata: {}, code: 200 };
    void this.#write('ResponseStarted');
  }

  setResponse(response: PipelineResponse): void {
    if (!this.#whole) return;
    if (response.kind === 'object') this.#responseObject = this.#redact(response.item.object);
    if (response.kind === 'list') this.#responseObject = this.#redact(listObjectOf(response));
  }

  recordRejection(rejection: Status): void {
    const { status, reason, code } = rejection;
    if (this.#silent) {
      this.#responseStatus = { metadata: {}, status, reason, code };
      return;
    }
    const { message, details } = rejection;
    this.#responseStatus = { metadata: {}, status, message, reason, details, code };
    if (this.#whole) this.#responseObject = { kind: 'Status', apiVersion: 'v1', metadata: {}, status, message, reason, details, code };
  }

  /** Records the stage Panic, which ends the events of a request with an internal error. */
  recordPanic(fault: unknown): void {
    const message = `APIServer panic'd: ${this.#silent ? 'the message is withheld' : errorText(fault)}`;
    this.#responseStatus = { metadata: {}, status: 'Failure', message, reason: 'InternalError', code: 500 };
    void this.#write('Panic');
    this.#isComplete = true;
  }

  recordResponseComplete(code: number): void {
    if (this.#isComplete) return;
    const ms = this.#now() - this.#subject.receivedAt;
    if (!this.#longRunning && ms > slowMs) this.#annotateLatencies(ms);
    this.#responseStatus = this.#responseStatus === undefined ? { metadata: {}, code } : { ...this.#responseStatus, code };
    void this.#write('ResponseComplete');
  }

  #annotateLatencies(totalMs: number): void {
    const prefix = 'apiserver.latency.k8s.io/';
    for (const [step, ms] of Object.entries(this.#latencies)) if (ms > 0) this.annotate(`${prefix}${step}`, latencyText(ms));
    this.annotate(`${prefix}total`, latencyText(totalMs));
  }

  /** Records a request whose authentication failed. */
  recordUnauthenticated(message: string, code: number): void {
    this.#user = {};
    this.#responseStatus = { metadata: {}, status: 'Failure', message, code };
    void this.#write('ResponseStarted');
  }

  #redact(value: unknown): unknown {
    return this.#scope.omitManagedFields ? withoutManagedFields(value) : value;
  }

  #write(stage: AuditStage): Promise<void> | undefined {
    if (this.#scope.omitStages.has(stage)) return undefined;
    let annotations: Readonly<Record<string, string>> | undefined;
    if (this.#annotationCount > 0) {
      annotations = Object.freeze(this.#annotations);
      this.#annotationsRecorded = true;
    }
    const { auditID, requestURI, sourceIPs } = this.#subject;
    // one literal for all events: an object that grows by assignments is several times slower to build and to copy
    const event: AuditEvent = {
      kind: 'Event',
      apiVersion: 'audit.k8s.io/v1',
      level: this.#scope.level,
      auditID,
      stage,
      requestURI,
      verb: this.#verb,
      user: this.#user,
      impersonatedUser: this.#impersonatedUser,
      authenticationMetadata: this.#authenticationMetadata,
      sourceIPs: sourceIPs.length > 0 ? sourceIPs : undefined,
      userAgent: this.#userAgent,
      objectRef: this.#objectRef,
      responseStatus: this.#responseStatus,
      requestObject: this.#requestObject,
      responseObject: this.#responseObject,
      requestReceivedTimestamp: this.#requestReceivedTimestamp,
      stageTimestamp: microTime(this.#now()),
      annotations,
    };
    return this.#record(Object.freeze(event));
  }
}

let formattedSecond = Number.NaN;
let secondText = '';

/** Formats a time in milliseconds as metav1.MicroTime. The text of the last second is kept, because most events are in it. */
function microTime(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== formattedSecond) {
    secondText = new Date(second * 1000).toISOString().slice(0, -'000Z'.length);
    formattedSecond = second;
  }
  return `${secondText}${String(Math.trunc(ms - second * 1000)).padStart(3, '0')}000Z`;
}

const userOf = ({ name, uid, groups, extra }: Identity): AuditUser => ({ username: name, uid, groups, extra });

const nonEmpty = (text: string): string | undefined => (text === '' ? undefined : text);

function refOf(attributes: Attributes): AuditObjectRef | undefined {
  if (attributes.kind === 'path') return undefined;
  const { resource, namespace, name, group, version, subresource } = attributes;
  return {
    resource,
    namespace: nonEmpty(namespace),
    name: nonEmpty(name),
    uid: undefined,
    apiGroup: nonEmpty(group),
    apiVersion: nonEmpty(version),
    resourceVersion: undefined,
    subresource: nonEmpty(subresource),
  };
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
function withNameFromBody(ref: AuditObjectRef, body: unknown, isConfidentialBody: boolean): AuditObjectRef {
  const metadata = isObject(body) ? body['metadata'] : undefined;
  if (!isObject(metadata)) return ref;
  const text = (key: keyof typeof identityFormats): string | undefined => {
    const value = metadata[key];
    if (typeof value !== 'string' || value === '') return undefined;
    return isConfidentialBody && !identityFormats[key].test(value) ? undefined : value;
  };
  return {
    resource: ref.resource,
    namespace: ref.namespace ?? text('namespace'),
    name: ref.name ?? text('name'),
    uid: text('uid'),
    apiGroup: ref.apiGroup,
    apiVersion: ref.apiVersion,
    resourceVersion: text('resourceVersion'),
    subresource: ref.subresource,
  };
}
