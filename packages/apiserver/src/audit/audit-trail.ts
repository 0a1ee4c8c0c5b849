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

/** The attributes of a request that are known before authentication. */
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
/** Requests that take longer are annotated with their latency, as upstream does. */
const slowMs = 500;
const none: Readonly<Record<string, string>> = Object.freeze({});

export interface AuditTrailOptions {
  readonly scope: AuditScope;
  /** Passes an event to the sinks. Returns a promise if a sink applies back pressure. */
  readonly record: (event: AuditEvent) => Promise<void> | undefined;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
}

/** Records the audit events of one request after authentication. Content that the policy excludes is not kept. */
export class AuditTrail {
  readonly #scope: AuditScope;
  readonly #record: (event: AuditEvent) => Promise<void> | undefined;
  readonly #now: () => number;
  readonly #whole: boolean;
  #event: Omit<AuditEvent, 'stage' | 'stageTimestamp'>;
  #annotations = none;
  #isComplete = false;
  /** True if messages of errors are omitted, because they may quote a confidential body. */
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
    const objectRef = refOf(attributes);
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
      ...(sourceIPs.length > 0 && { sourceIPs }),
      ...(userAgent !== undefined && {
        userAgent: userAgent.length > maxUserAgent ? `${userAgent.slice(0, maxUserAgent)}...TRUNCATED` : userAgent,
      }),
      ...(objectRef && { objectRef }),
      requestReceivedTimestamp: microTime(receivedAt),
    };
  }

  /** Records the stage RequestReceived. The request waits for the promise if one is returned. */
  recordReceived(): Promise<void> | undefined {
    return this.#write('RequestReceived');
  }

  setImpersonatedUser({ identity, constraint }: ImpersonationResult): void {
    this.#event = {
      ...this.#event,
      impersonatedUser: userOf(identity),
      ...(constraint !== undefined && { authenticationMetadata: { impersonationConstraint: constraint } }),
    };
  }

  /** Adds an annotation to the later events. The first value of a key is kept, as upstream does. */
  annotate(key: string, value: string, level?: 'Request'): void {
    if (level === 'Request' && this.#scope.level === 'Metadata') return;
    const annotations = this.#annotations;
    if (Object.hasOwn(annotations, key) || Object.keys(annotations).length >= maxAnnotations) return;
    // recorded events share the former object
    this.#annotations = Object.freeze({ ...annotations, [key]: value });
  }

  /** Sets the decoded body, which must not change afterwards. */
  setRequestObject(body: unknown): void {
    const objectRef = this.#event.objectRef && withNameFromBody(this.#event.objectRef, body, this.#silent);
    this.#event = {
      ...this.#event,
      ...(objectRef && { objectRef }),
      ...(this.#scope.level !== 'Metadata' && body !== undefined && { requestObject: this.#redact(body) }),
    };
  }

  /** Records the stage ResponseStarted of a long-running request. */
  recordResponseStarted(): void {
    this.#longRunning = true;
    this.#event = { ...this.#event, responseStatus: { metadata: {}, code: 200 } };
    void this.#write('ResponseStarted');
  }

  setResponse(response: PipelineResponse): void {
    if (!this.#whole) return;
    if (response.kind === 'object') this.#event = { ...this.#event, responseObject: this.#redact(response.item.object) };
    if (response.kind === 'list') this.#event = { ...this.#event, responseObject: this.#redact(listObjectOf(response)) };
  }

  recordRejection(rejection: Status): void {
    const { status, reason, code } = rejection;
    if (this.#silent) {
      this.#event = { ...this.#event, responseStatus: { metadata: {}, status, reason, code } };
      return;
    }
    const { message, details } = rejection;
    this.#event = {
      ...this.#event,
      responseStatus: { metadata: {}, status, message, reason, details, code },
      ...(this.#whole && { responseObject: { kind: 'Status', apiVersion: 'v1', metadata: {}, status, message, reason, details, code } }),
    };
  }

  /** Records the stage Panic, the last one of a request that an internal error ended. */
  recordPanic(fault: unknown): void {
    const message = `APIServer panic'd: ${this.#silent ? 'the message is withheld' : fault instanceof Error ? fault.message : String(fault)}`;
    this.#event = { ...this.#event, responseStatus: { metadata: {}, status: 'Failure', message, reason: 'InternalError', code: 500 } };
    void this.#write('Panic');
    this.#isComplete = true;
  }

  recordResponseComplete(code: number): void {
    if (this.#isComplete) return;
    const ms = this.#now() - this.#receivedAt;
    if (!this.#longRunning && ms > slowMs) this.annotate('apiserver.latency.k8s.io/total', `${ms / 1000}s`);
    this.#event = { ...this.#event, responseStatus: { metadata: {}, ...this.#event.responseStatus, code } };
    void this.#write('ResponseComplete');
  }

  /** Records a request whose authentication failed. */
  recordUnauthenticated(message: string, code: number): void {
    this.#event = { ...this.#event, user: {}, responseStatus: { metadata: {}, status: 'Failure', message, code } };
    void this.#write('ResponseStarted');
  }

  #redact(value: unknown): unknown {
    return this.#scope.omitManagedFields ? withoutManagedFields(value) : value;
  }

  #write(stage: AuditStage): Promise<void> | undefined {
    if (this.#scope.omitStages.has(stage)) return undefined;
    const annotations = this.#annotations;
    return this.#record(
      Object.freeze({
        ...this.#event,
        stage,
        stageTimestamp: microTime(this.#now()),
        ...(annotations !== none && { annotations }),
      }),
    );
  }
}

/** Formats a time as metav1.MicroTime. */
const microTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, -1)}000Z`;

const userOf = ({ name, uid, groups, extra }: Identity): AuditUser => ({
  username: name,
  ...(uid !== undefined && { uid }),
  groups,
  ...(extra && { extra }),
});

function refOf(attributes: Attributes): AuditObjectRef | undefined {
  if (attributes.kind === 'path') return undefined;
  const { resource, namespace, name, group, version, subresource } = attributes;
  return {
    resource,
    ...(namespace !== '' && { namespace }),
    ...(name !== '' && { name }),
    ...(group !== '' && { apiGroup: group }),
    ...(version !== '' && { apiVersion: version }),
    ...(subresource !== '' && { subresource }),
  };
}

const identityFormats = {
  namespace: /^[a-z0-9][-a-z0-9]{0,62}$/,
  name: /^[a-z0-9][-.a-z0-9]{0,252}$/,
  uid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/,
  resourceVersion: /^[0-9]{1,20}$/,
} as const;

/**
 * Adds the identity of the object in the body to a reference, where the path does not contain it. Of a confidential body, only values of the
 * expected format are added: any other value is content of the body.
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
