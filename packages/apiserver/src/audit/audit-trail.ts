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
const none: Readonly<Record<string, string>> = Object.freeze({});

/** The audit events of one request, from when it is known who asks. What is not to be written down is not kept. */
export class AuditTrail {
  readonly #scope: AuditScope;
  readonly #record: (event: AuditEvent) => Promise<void> | undefined;
  readonly #now: () => number;
  readonly #whole: boolean;
  #event: Omit<AuditEvent, 'stage' | 'stageTimestamp'>;
  #annotations = none;
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

  /** Where a promise is returned, the request waits for it. */
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

  /** For the events to come. The first value of a key stays, as upstream keeps it. */
  annotate(key: string, value: string, level?: 'Request'): void {
    if (level === 'Request' && this.#scope.level === 'Metadata') return;
    const annotations = this.#annotations;
    if (Object.hasOwn(annotations, key) || Object.keys(annotations).length >= maxAnnotations) return;
    // an event that has been recorded keeps those it had
    this.#annotations = Object.freeze({ ...annotations, [key]: value });
  }

  /** The body, once it has been decoded. It is nobody's to change. */
  setRequestObject(body: unknown): void {
    const objectRef = this.#event.objectRef && withNameFromBody(this.#event.objectRef, body, this.#silent);
    this.#event = {
      ...this.#event,
      ...(objectRef && { objectRef }),
      ...(this.#scope.level !== 'Metadata' && body !== undefined && { requestObject: this.#redact(body) }),
    };
  }

  /** A request that stays open is told of when it begins, too. */
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

  /** A fault of the server's own ended the request: its last event, as after a panic of Kubernetes' server. */
  recordPanic(fault: unknown): void {
    const message = `APIServer panic'd: ${this.#silent ? 'the message is withheld' : fault instanceof Error ? fault.message : String(fault)}`;
    this.#event = { ...this.#event, responseStatus: { metadata: {}, status: 'Failure', message, reason: 'InternalError', code: 500 } };
    void this.#write('Panic');
    this.#completed = true;
  }

  recordResponseComplete(code: number): void {
    if (this.#completed) return;
    const ms = this.#now() - this.#receivedAt;
    if (!this.#longRunning && ms > slowMs) this.annotate('apiserver.latency.k8s.io/total', `${ms / 1000}s`);
    this.#event = { ...this.#event, responseStatus: { metadata: {}, ...this.#event.responseStatus, code } };
    void this.#write('ResponseComplete');
  }

  /** Nobody is known to have sent it. */
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

/** As `MicroTime` of Kubernetes is written. */
const microTime = (ms: number): string => `${new Date(ms).toISOString().slice(0, -1)}000Z`;

const userOf = ({ name, uid, groups, extra }: Identity): AuditUser => ({
  username: name,
  ...(uid !== undefined && { uid }),
  groups,
  ...(extra && { extra }),
});

function refOf(asked: Attributes): AuditObjectRef | undefined {
  if (asked.kind === 'path') return undefined;
  const { resource, namespace, name, group, version, subresource } = asked;
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
