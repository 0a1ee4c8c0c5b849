import { randomUUID } from 'node:crypto';
import { StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import type { Logger } from '@oarlock/primitives/logger';
import { anonymous, type Authenticator, type Identity } from '@oarlock/spi/authn';
import type { Authorizer } from '@oarlock/spi/authz';
import type { AuthMetrics } from '../authorization/access-metrics.ts';
import { recordReceived, sourceIPs, type Auditor } from '../audit/auditor.ts';
import type { AuditSubject, AuditTrail } from '../audit/audit-trail.ts';
import { annotateAuthorizationDecision, runAuthorizers, forbiddenError } from '../authorization/authorization.ts';
import type { ExecutionSeat, PriorityAndFairness } from '../flowcontrol/priority-and-fairness.ts';
import { estimateListWork } from '../flowcontrol/work-estimator.ts';
import { credentialsOf, authenticate } from '../authentication/authentication.ts';
import { clientClassOf } from '../http/client-class.ts';
import type { Exchange } from '../http/exchange.ts';
import { impersonate } from '../authentication/impersonation.ts';
import type { InFlightCounter } from './in-flight-counter.ts';
import { attributesOf, type RequestInfo } from '../http/request-info.ts';
import type { HttpPipeline } from './http-pipeline.ts';
import type { InFlightRequest, ParsedRequest } from './in-flight-request.ts';
import { isReadOnly } from '../http/request-metrics.ts';

export interface RequestFilterOptions {
  readonly authn: readonly Authenticator[];
  readonly authz: readonly Authorizer[];
  /** The auditor; undefined if no audit sink is configured. */
  readonly auditor?: Auditor | undefined;
  readonly access?: AuthMetrics;
  readonly fairness: PriorityAndFairness;
  readonly inFlight: InFlightCounter;
  readonly clock: Clock;
  readonly log: Logger;
  readonly pipeline: Pick<HttpPipeline, 'count'>;
}

/** The filters before a request is handled: authentication, auditing, impersonation, flow control and authorization. */
export class RequestFilters {
  readonly #options: RequestFilterOptions;
  constructor(options: RequestFilterOptions) {
    this.#options = options;
  }

  /**
   * Authenticates the request, begins its audit trail, and returns the impersonated user, or the authenticated user without impersonation.
   * @throws StatusError `Unauthorized` if the credentials are invalid; `Forbidden` if the impersonation is not allowed
   */
  async authenticate(request: ParsedRequest): Promise<Identity> {
    const { exchange, state, target, info } = request;
    const { authn, authz, auditor, log, access, clock } = this.#options;
    const startedAt = clock.monotonic();
    const credentials = credentialsOf(exchange, target.path);
    if (credentials.certificate !== undefined) access?.observeClientCertificate(credentials.certificate, clock.now());
    const result = await authenticate(authn, credentials, (err) =>
      log.error({ err, auditId: state.auditId, path: target.path }, 'unable to authenticate the request'),
    );
    const rejected = result instanceof StatusError;
    access?.observeAuthentication(rejected ? undefined : result.identity.name, (clock.monotonic() - startedAt) / 1000);
    if (rejected) {
      auditor?.recordUnauthenticated(exchange, {
        subject: () => auditSubjectOf(request),
        attributes: attributesOf(info, anonymous),
        code: result.code,
      });
      throw result;
    }
    const sender = result.identity;
    if (exchange.connection.clientClass !== 'system') exchange.connection.raiseClass(clientClassOf(sender));
    if (auditor !== undefined) {
      const pending = auditor.waitForBackPressure();
      if (pending !== undefined) await pending;
      const trail = auditor.trail(() => auditSubjectOf(request), attributesOf(info, sender));
      if (trail !== undefined) await this.#beginAudit(trail, state, result.annotations);
    }
    state.warnings.push(...result.warnings);
    const user = await impersonate(exchange.rawHeaders, sender, authz, attributesOf(info, sender));
    if (user instanceof StatusError) throw user;
    if (user.identity !== sender) state.audit?.setImpersonatedUser(user);
    return user.identity;
  }

  async #beginAudit(trail: AuditTrail, state: InFlightRequest, annotations: Readonly<Record<string, string>>): Promise<void> {
    state.audit = trail;
    await recordReceived(trail);
    for (const [key, value] of Object.entries(annotations)) trail.annotate(key, value);
  }

  /** Authorizes a request. @throws StatusError `Forbidden` if no authorizer allows the request */
  async authorize({ audit }: InFlightRequest, info: RequestInfo, identity: Identity): Promise<void> {
    const attributes = attributesOf(info, identity);
    const { authz, access, clock } = this.#options;
    const startedAt = clock.monotonic();
    const decision = await runAuthorizers(authz, attributes);
    access?.observeAuthorization(decision.decision, (clock.monotonic() - startedAt) / 1000);
    if (audit !== undefined) annotateAuthorizationDecision(audit, decision);
    if (decision.decision !== 'allow') throw forbiddenError(attributes, decision.reason);
  }

  /**
   * Waits for a seat in API Priority and Fairness; `state.release` releases the seat.
   * @throws StatusError `TooManyRequests` if the request is rejected
   */
  async admitToFlowControl({ exchange, state, target, info }: ParsedRequest, identity: Identity): Promise<void> {
    const { fairness, inFlight, pipeline } = this.#options;
    const seats =
      info.kind === 'resource' && (info.verb === 'list' || info.verb === 'watch')
        ? estimateListWork(info.verb, target.query.first, () => pipeline.count(info.group, info.version, info.resource))
        : 1;
    const acquired = fairness.acquire({ info, identity, seats, signal: () => exchange.signal });
    const seat = acquired instanceof Promise ? await acquired : acquired;
    state.release = inFlight.add(isReadOnly(exchange.method), seat);
    setFlowControlHeaders(exchange, seat);
  }
}

/** Sets the response headers with the UIDs of the FlowSchema and the priority level of the request. */
function setFlowControlHeaders(exchange: Exchange, { flowSchemaUid: schemaUid, priorityLevelUid: levelUid }: ExecutionSeat): void {
  if (schemaUid !== '') exchange.setHeader('X-Kubernetes-PF-FlowSchema-UID', schemaUid);
  if (levelUid !== '') exchange.setHeader('X-Kubernetes-PF-PriorityLevel-UID', levelUid);
}

const auditSubjectOf = ({ exchange, state: { auditId, receivedAt } }: ParsedRequest): AuditSubject => ({
  auditID: auditId,
  requestURI: exchange.target,
  userAgent: exchange.headers['user-agent'],
  sourceIPs: sourceIPs(exchange),
  receivedAt,
});

const maxAuditIdLength = 64;

/** Returns the audit ID that the client sent, or a new audit ID. */
export function auditIdOf({ headers }: Exchange): string {
  const sent = headers['audit-id'];
  return typeof sent === 'string' && /^[\w-]+$/.test(sent) ? sent.slice(0, maxAuditIdLength) : randomUUID();
}
