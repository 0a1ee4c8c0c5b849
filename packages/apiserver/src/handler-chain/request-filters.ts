import { randomUUID } from 'node:crypto';
import type { StatusError } from '@oarlock/api/status';
import type { Clock } from '@oarlock/primitives/clock';
import { continueWith } from '@oarlock/primitives/concurrency/continue-with';
import type { Logger } from '@oarlock/primitives/logger';
import { anonymous, type Authenticator, type Identity } from '@oarlock/spi/authn';
import type { Attributes, Authorizer } from '@oarlock/spi/authz';
import type { AuthMetrics } from '../authorization/access-metrics.ts';
import { recordReceived, sourceIPs, type Auditor } from '../audit/auditor.ts';
import type { AuditSubject } from '../audit/audit-trail.ts';
import { annotateAuthorizationDecision, runAuthorizers, forbiddenError, type PluginNames } from '../authorization/authorization.ts';
import type { ExecutionSeat, PriorityAndFairness } from '../flowcontrol/priority-and-fairness.ts';
import { estimateListWork } from '../flowcontrol/work-estimator.ts';
import { credentialsOf, authenticate, type AuthenticatedRequest } from '../authentication/authentication.ts';
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
  /** The names of the authorizer plugins, for metrics. */
  readonly authorizerNames?: PluginNames;
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
   * Authenticates the request, begins its audit trail, and returns the impersonated user, or the authenticated user without impersonation. Returns a
   * promise only if a step has to wait.
   * @throws StatusError `Unauthorized` if the credentials are invalid; `Forbidden` if the impersonation is not allowed
   */
  authenticate(request: ParsedRequest): Identity | Promise<Identity> {
    const { exchange, state, target } = request;
    const { authn, log, access, clock } = this.#options;
    const startedAt = clock.monotonic();
    const credentials = credentialsOf(exchange, target.path);
    if (credentials.certificate !== undefined) access?.observeClientCertificate(credentials.certificate, clock.now());
    const result = authenticate(authn, credentials, (err) =>
      log.error({ err, auditId: state.auditId, path: target.path }, 'unable to authenticate the request'),
    );
    return continueWith(result, (authenticated) => {
      const identity = 'identity' in authenticated ? authenticated.identity : undefined;
      access?.observeAuthentication(identity?.name, (clock.monotonic() - startedAt) / 1000);
      if (!('identity' in authenticated)) throw this.#rejectUnauthenticated(request, authenticated);
      return this.#acceptSender(request, authenticated, clock.monotonic() - startedAt);
    });
  }

  /** Records the audit event of a request whose authentication failed, and returns the error of the request. */
  #rejectUnauthenticated(request: ParsedRequest, error: StatusError): StatusError {
    this.#options.auditor?.recordUnauthenticated(request.exchange, {
      subject: () => auditSubjectOf(request),
      attributes: attributesOf(request.info, anonymous),
      code: error.code,
    });
    return error;
  }

  /** Begins the audit trail of an authenticated request, and returns its user. */
  #acceptSender(
    request: ParsedRequest,
    { identity: sender, annotations, warnings }: AuthenticatedRequest,
    authenticationMs: number,
  ): Identity | Promise<Identity> {
    const { exchange, state, info } = request;
    const { connection } = exchange;
    if (connection.clientClass !== 'system') connection.raiseClass(clientClassOf(sender));
    const attributes = attributesOf(info, sender);
    return continueWith(this.#beginAudit(request, attributes, annotations), () => {
      for (const warning of warnings) state.warnings.push(warning);
      state.addLatency('authentication', authenticationMs);
      const { authz, clock } = this.#options;
      const startedAt = clock.monotonic();
      return continueWith(impersonate(exchange.rawHeaders, sender, authz, attributes), (user) => {
        if (!('identity' in user) || user.identity !== sender) state.addLatency('impersonation', clock.monotonic() - startedAt);
        if (!('identity' in user)) throw user;
        if (user.identity !== sender) state.audit?.setImpersonatedUser(user);
        return user.identity;
      });
    });
  }

  #beginAudit(request: ParsedRequest, attributes: Attributes, annotations: AuthenticatedRequest['annotations']): unknown {
    const { auditor } = this.#options;
    if (auditor === undefined) return undefined;
    return continueWith<unknown, void>(auditor.waitForBackPressure(), () => {
      const trail = auditor.trail(() => auditSubjectOf(request), attributes);
      if (trail === undefined) return undefined;
      request.state.audit = trail;
      return continueWith(recordReceived(trail), () => {
        for (const [key, value] of Object.entries(annotations)) trail.annotate(key, value);
      });
    });
  }

  /** Authorizes a request. Returns a promise only if an authorizer does. @throws StatusError `Forbidden` if no authorizer allows the request */
  authorize({ audit }: InFlightRequest, info: RequestInfo, identity: Identity): void | Promise<void> {
    const attributes = attributesOf(info, identity);
    const { authz, authorizerNames = [], access, clock } = this.#options;
    const startedAt = clock.monotonic();
    return continueWith(runAuthorizers(authz, attributes), (decision) => {
      const ms = clock.monotonic() - startedAt;
      access?.observeAuthorization(decision.decision, ms / 1000);
      access?.countDecision(authorizerNames[decision.by], decision.decision);
      audit?.addLatency('authorization', ms);
      if (audit !== undefined) annotateAuthorizationDecision(audit, decision);
      if (decision.decision !== 'allow') throw forbiddenError(attributes, decision.reason);
    });
  }

  /**
   * Acquires a seat in API Priority and Fairness; `state.release` releases the seat. Returns a promise only if the request is queued.
   * @throws StatusError `TooManyRequests` if the request is rejected
   */
  admitToFlowControl({ exchange, state, target, info }: ParsedRequest, identity: Identity): void | Promise<void> {
    const { fairness, inFlight, pipeline, clock } = this.#options;
    const seats =
      info.kind === 'resource' && (info.verb === 'list' || info.verb === 'watch')
        ? estimateListWork(info.verb, target.query.first, () => pipeline.count(info.group, info.version, info.resource))
        : 1;
    const startedAt = clock.monotonic();
    const acquired = fairness.acquire({ info, identity, seats, signal: () => exchange.signal });
    const isQueued = acquired instanceof Promise;
    return continueWith(acquired, (seat) => {
      if (isQueued) state.addLatency('apf-queue-wait', clock.monotonic() - startedAt);
      state.release = inFlight.add(isReadOnly(exchange.method), seat);
      setFlowControlHeaders(exchange, seat);
    });
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
